// Package httpclient is the transport under the typed clients. It turns every answer into one of three
// things: the body, an *apierr.Error that the service itself wrote, or an error that says nothing about what happened.
package httpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"railguard/services/apierr"
	"railguard/services/fencing"
)

// The headers of every surface, besides fencing.HeaderToken.
const (
	HeaderOwnerID        = "X-Owner-Id"
	HeaderIdempotencyKey = "X-Idempotency-Key"
)

// maxAnswer bounds what is read of an answer; a page of 500 payouts is about 250 KiB.
const maxAnswer = 4 << 20

// Hop is the timing of one hop: how long to connect, how long the whole call may take, and how often a
// read is repeated. Retries is for reads alone; a write is repeated by nobody below the activity's policy.
type Hop struct {
	Connect, Whole time.Duration
	Retries        int
}

// Reads is the hop of every GET.
var Reads = Hop{Connect: 300 * time.Millisecond, Whole: time.Second, Retries: 2}

// Identity is what a client presents to a service.
type Identity struct {
	Bearer string      // the caller's own bearer token
	TLS    *tls.Config // nil for the defaults
}

// Client calls one service over one hop.
type Client struct {
	base   *url.URL
	bearer string
	hop    Hop
	http   *http.Client
}

// New makes a client whose connections are reused. base is an absolute http or https URL without a path.
func New(base string, id Identity, hop Hop) (*Client, error) {
	return newClient(base, id, hop, false)
}

// NewOnce makes a client for a call that must never be made twice. Go's transport replays a request
// that carries an idempotency key when a reused connection dies under it; here no connection is ever
// reused, the body cannot be rewound, HTTP/2 is off, and no redirect or proxy is followed, so
// that none of the conditions for a replay can arise.
func NewOnce(base string, id Identity, hop Hop) (*Client, error) {
	hop.Retries = 0
	return newClient(base, id, hop, true)
}

func newClient(base string, id Identity, hop Hop, once bool) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is not an http or https URL", base)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	transport := &http.Transport{
		Protocols:           protocols,
		DialContext:         (&net.Dialer{Timeout: hop.Connect}).DialContext,
		TLSHandshakeTimeout: hop.Connect,
		TLSClientConfig:     id.TLS,
		DisableKeepAlives:   once,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     60 * time.Second,
	}
	return &Client{
		base:   u,
		bearer: id.Bearer,
		hop:    hop,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Call is one request. Token, OwnerID and IdempotencyKey become headers when they are set.
type Call struct {
	Method, Path   string
	Query          url.Values
	Token          fencing.Token
	OwnerID        string
	IdempotencyKey string
	Body           any
	Whole          time.Duration // instead of the hop's, when > 0
}

// TransportError says that no usable answer arrived. What the service did is unknown, unless
// NothingWritten: then no connection was ever given to the request, so not a byte of it was sent.
type TransportError struct {
	Method, Path   string
	NothingWritten bool
	Err            error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Method, e.Path, e.Err)
}

func (e *TransportError) Unwrap() error { return e.Err }

// AnswerError says that an answer arrived which the service did not write in the agreed form: a proxy's
// page, a truncated body, a status that does not belong to its code. It says nothing about what happened.
type AnswerError struct {
	Method, Path string
	Status       int
	Reason       string
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s %s: status %d: %s", e.Method, e.Path, e.Status, e.Reason)
}

// RequireToken is the guard of every client method that takes a token: without one there is no such
// call. It panics in tests and returns an error in production.
func RequireToken(token fencing.Token) error {
	if token.Valid() {
		return nil
	}
	err := fmt.Errorf("programming error: %w: a fenced call was made with token %d", fencing.ErrInvalidToken, token)
	if testing.Testing() {
		panic(err)
	}
	return err
}

// Do makes the call and decodes a 2xx answer into out, unless out is nil. It returns nil, *apierr.Error,
// *TransportError or *AnswerError.
func (c *Client) Do(ctx context.Context, call Call, out any) error {
	var err error
	for try := 0; ; try++ {
		err = c.once(ctx, call, out)
		if err == nil || call.Method != http.MethodGet || try >= c.hop.Retries || !worthRepeating(err) || ctx.Err() != nil {
			return err
		}
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(50 * time.Millisecond))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

func worthRepeating(err error) bool {
	var known *apierr.Error
	if errors.As(err, &known) {
		return known.RetrySafe || known.Code == apierr.Internal
	}
	return true
}

func (c *Client) once(ctx context.Context, call Call, out any) error {
	whole := c.hop.Whole
	if call.Whole > 0 {
		whole = call.Whole
	}
	ctx, cancel := context.WithTimeout(ctx, whole)
	defer cancel()
	connected := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})
	req, err := c.request(traced, call)
	if err != nil {
		return &TransportError{call.Method, call.Path, true, err}
	}
	res, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return &TransportError{call.Method, call.Path, !connected, err}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return &TransportError{call.Method, call.Path, false, err}
	}
	if len(body) > maxAnswer {
		return &AnswerError{call.Method, call.Path, res.StatusCode, "answer too large"}
	}
	return interpret(call, res.StatusCode, body, out)
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + call.Path
	u.RawQuery = call.Query.Encode()
	var body io.Reader
	size := 0
	if call.Body != nil {
		data, err := json.Marshal(call.Body)
		if err != nil {
			return nil, err
		}
		// Not a bytes.Reader: net/http must find no way to rewind it.
		body, size = struct{ io.Reader }{bytes.NewReader(data)}, len(data)
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil
	if body != nil {
		req.ContentLength = int64(size)
		req.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if call.Token != 0 {
		req.Header.Set(fencing.HeaderToken, call.Token.String())
	}
	if call.OwnerID != "" {
		req.Header.Set(HeaderOwnerID, call.OwnerID)
	}
	if call.IdempotencyKey != "" {
		req.Header.Set(HeaderIdempotencyKey, call.IdempotencyKey)
	}
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(req.Header))
	return req, nil
}

func interpret(call Call, status int, body []byte, out any) error {
	if status >= 200 && status < 300 {
		if out == nil {
			return nil
		}
		// Unknown fields are let through: a newer service may say more.
		if err := json.Unmarshal(body, out); err != nil {
			return &AnswerError{call.Method, call.Path, status, "body: " + err.Error()}
		}
		return nil
	}
	var envelope apierr.Error
	if err := json.Unmarshal(body, &envelope); err != nil {
		return &AnswerError{call.Method, call.Path, status, "no error envelope"}
	}
	row, ok := apierr.Lookup(envelope.Code)
	if !ok || row.Status != status {
		return &AnswerError{call.Method, call.Path, status, fmt.Sprintf("code %q does not belong to this status", envelope.Code)}
	}
	envelope.RetrySafe = row.RetrySafe
	return &envelope
}

// CloseIdle closes the connections that wait for reuse.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }
