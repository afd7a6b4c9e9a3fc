// Package faults puts trouble between two processes: it stands in the path of their HTTP traffic and loses, holds or replaces single messages.
package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Verdict is what happens to one request.
type Verdict struct {
	// DropRequest closes the caller's connection; the target sees nothing.
	DropRequest bool
	// DropAnswer forwards the request, waits for the answer and closes the caller's connection.
	DropAnswer bool
	// AfterAnswer, when set, runs after the target answered and before the caller hears of it.
	AfterAnswer func()
	// Status and Body, when Status is set, are answered in place of the target's answer, which is not asked
	// unless Forward is set too.
	Status  int
	Body    string
	Forward bool
}

// Pass lets a request and its answer through.
var Pass = Verdict{}

// Proxy forwards HTTP to one target. A rule decides each request's fate; without one everything passes.
type Proxy struct {
	URL string

	target    *url.URL
	server    *http.Server
	transport *http.Transport
	mu        sync.Mutex
	rule      func(*http.Request) Verdict
	seen      []string
}

// NewProxy listens on a free loopback port and forwards to target, an http URL.
func NewProxy(target string) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		URL: "http://" + listener.Addr().String(), target: u,
		// One connection a request, so that nothing below this proxy can repeat one.
		transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error { return p.server.Close() }

// Rule sets the rule for the requests to come. It runs before the request is forwarded; it may block
// (the request is then held) and may change the request's headers.
func (p *Proxy) Rule(rule func(*http.Request) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Seen lists the requests so far, "METHOD path", in the order of arrival.
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.seen = append(p.seen, r.Method+" "+r.URL.Path)
	rule := p.rule
	p.mu.Unlock()
	verdict := Pass
	if rule != nil {
		verdict = rule(r)
	}
	if verdict.DropRequest {
		drop()
		return
	}
	if verdict.Status != 0 && !verdict.Forward {
		answer(w, verdict.Status, nil, []byte(verdict.Body))
		return
	}
	status, header, received, err := p.forward(r, body)
	if verdict.AfterAnswer != nil {
		verdict.AfterAnswer()
	}
	switch {
	case err != nil || verdict.DropAnswer:
		drop()
	case verdict.Status != 0:
		answer(w, verdict.Status, nil, []byte(verdict.Body))
	default:
		answer(w, status, header, received)
	}
}

func (p *Proxy) forward(r *http.Request, body []byte) (int, http.Header, []byte, error) {
	u := *p.target
	u.Path, u.RawPath, u.RawQuery = r.URL.Path, r.URL.RawPath, r.URL.RawQuery
	// The caller's hanging up must not cancel what has been forwarded: the target decides what that means.
	out, err := http.NewRequest(r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	out.GetBody = nil
	out.Header = r.Header.Clone()
	res, err := p.transport.RoundTrip(out)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("forward: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	received, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, received, err
}

func answer(w http.ResponseWriter, status int, header http.Header, body []byte) {
	for name, values := range header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// drop closes the connection without an answer.
func drop() {
	panic(http.ErrAbortHandler)
}
