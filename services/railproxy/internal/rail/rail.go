// Package rail calls the payment rail: once, on a connection of its own, with nothing in between that
// could call it twice.
package rail

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"railguard/services/httpclient"
	"railguard/services/money"
	"railguard/services/railapi"
	"railguard/services/strictjson"
)

const (
	connectTimeout = time.Second
	maxAnswer      = 64 << 10 // bytes of a whole answer
	maxBody        = 16 << 10 // bytes of its body
	// lingering is how long a complete answer waits for the rail to close, to see that nothing follows it.
	lingering = 200 * time.Millisecond
)

// Transfer is what the rail is asked for. The rail knows neither tokens nor idempotency keys: every
// request that it accepts moves money again.
type Transfer struct {
	ClientRef   string         `json:"clientRef"`
	AmountMinor int64          `json:"amountMinor"`
	Currency    money.Currency `json:"currency"`
}

// Result is what became of a forwarded transfer.
type Result struct {
	Outcome       railapi.Outcome // Acked, Rejected, Timeout or Unsent
	RailReference string          // with Acked
	Reason        string          // for people, with Timeout and Unsent
}

// Rail is the way to one rail.
type Rail struct {
	base    *url.URL
	tls     *tls.Config // nil for plain HTTP
	timeout time.Duration
	reads   *httpclient.Client
}

// ParseURL reads the rail's address: an absolute http or https URL without user, query or fragment.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want an http or https URL without user, query and fragment")
	}
	return u, nil
}

// New makes the way to the rail at base. timeout bounds one submission from connecting to the answer's end.
// trust is nil for the system's certificates.
func New(base string, timeout time.Duration, trust *tls.Config) (*Rail, error) {
	u, err := ParseURL(base)
	if err != nil {
		return nil, err
	}
	reads, err := httpclient.New(base, httpclient.Identity{TLS: trust}, httpclient.Reads)
	if err != nil {
		return nil, err
	}
	r := &Rail{base: u, timeout: timeout, reads: reads}
	if u.Scheme == "https" {
		r.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if trust != nil {
			r.tls = trust.Clone()
		}
		r.tls.ServerName, r.tls.NextProtos = u.Hostname(), []string{"http/1.1"}
	}
	return r, nil
}

func (r *Rail) address() string {
	if r.base.Port() != "" {
		return r.base.Host
	}
	return net.JoinHostPort(r.base.Hostname(), r.base.Scheme) // "http" and "https" are also the names of their ports
}

// Forward presents a transfer to the rail, at most once. It does so over a bare connection and not through an
// HTTP client, because a client may send a request again on its own account (net/http does when
// a reused connection dies), follow a redirect, or go through a proxy: here there is one write, and
// everything before it is provably nothing, everything after it is unknown until the rail answers.
//
// notAfter is on the monotonic clock: a process that was frozen after recording its intent finds out here that its
// time is over. ctx ends nothing; it carries the trace.
func (r *Rail) Forward(ctx context.Context, t Transfer, notAfter time.Time) Result {
	deadline := time.Now().Add(r.timeout)
	request, err := r.encode(ctx, t)
	if err != nil {
		return unsent("encode: %v", err)
	}
	conn, err := r.connect(context.WithoutCancel(ctx), deadline)
	if err != nil {
		return unsent("connect: %v", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(deadline); err != nil {
		return unsent("set deadline: %v", err)
	}
	if late := time.Since(notAfter); late > 0 {
		return unsent("the intent was too old by %v", late)
	}
	written, err := conn.Write(request)
	if err != nil {
		// Over TLS the count is of plain bytes, and says nothing about those on the wire.
		if written == 0 && r.tls == nil {
			return unsent("write: %v", err)
		}
		return unknown("write: %v", err)
	}
	return readAnswer(conn, deadline)
}

func (r *Rail) encode(ctx context.Context, t Transfer) ([]byte, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, r.base.JoinPath("submit").String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "railguard")
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(req.Header))
	var out bytes.Buffer
	err = req.Write(&out)
	return out.Bytes(), err
}

func (r *Rail) connect(ctx context.Context, deadline time.Time) (net.Conn, error) {
	if limit := time.Now().Add(connectTimeout); limit.Before(deadline) {
		deadline = limit
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.address())
	if err != nil || r.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, r.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

func unsent(format string, args ...any) Result {
	return Result{Outcome: railapi.Unsent, Reason: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) Result {
	return Result{Outcome: railapi.Timeout, Reason: fmt.Sprintf(format, args...)}
}

// readAnswer classifies what comes back after the request was written. Only one complete answer that says so
// means accepted or declined; everything else is unknown.
func readAnswer(conn net.Conn, deadline time.Time) Result {
	limited := &io.LimitedReader{R: conn, N: maxAnswer}
	reader := bufio.NewReader(limited)
	// The request's method decides whether an answer has a body.
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodPost})
	if err != nil {
		return unknown("no answer: %v", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return unknown("status %d, body: %v", answer.StatusCode, err)
	case len(body) > maxBody, limited.N == 0:
		return unknown("status %d, the answer is too large", answer.StatusCode)
	}
	// The rail was asked to close. Waiting for that is short: a complete answer is one also without it.
	if limit := time.Now().Add(lingering); limit.Before(deadline) {
		_ = conn.SetReadDeadline(limit) // on an error the whole deadline is in force
	}
	if n, _ := reader.Read(make([]byte, 1)); n > 0 {
		return unknown("status %d, more than one answer", answer.StatusCode)
	}
	return classify(answer.StatusCode, body)
}

func classify(status int, body []byte) Result {
	switch {
	case status == http.StatusPaymentRequired:
		return Result{Outcome: railapi.Rejected}
	case status < 200 || status > 299:
		return unknown("status %d", status)
	}
	reference, err := acknowledgement(body)
	if err != nil {
		return unknown("status %d, acknowledgement: %v", status, err)
	}
	return Result{Outcome: railapi.Acked, RailReference: reference}
}

// referencePattern is what can be a rail's reference: it goes into a database, a ledger and a workflow's history.
var referencePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// acknowledgement reads exactly one JSON object with status ACCEPTED and a plausible reference. The rail
// may say more in it; it may not say anything twice.
func acknowledgement(body []byte) (string, error) {
	var fields map[string]any
	if err := strictjson.Decode(body, &fields); err != nil {
		return "", err
	}
	if status, _ := fields["status"].(string); status != "ACCEPTED" {
		return "", errors.New("its status is not ACCEPTED")
	}
	reference, _ := fields["railReference"].(string)
	if !referencePattern.MatchString(reference) {
		return "", errors.New("its reference is not plausible")
	}
	return reference, nil
}
