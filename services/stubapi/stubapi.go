// Package stubapi is the wire form of rail-stub, the stand-in for the rail in tests, demos and the harness.
package stubapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"railguard/services/httpclient"
	"railguard/services/money"
)

// SubmitRequest asks the rail for a transfer. There is no token and no idempotency: every call that is
// accepted is a fresh transfer.
type SubmitRequest struct {
	ClientRef   string         `json:"clientRef"`
	AmountMinor int64          `json:"amountMinor"`
	Currency    money.Currency `json:"currency"`
}

// Ack is the rail's acknowledgement.
type Ack struct {
	Status        string `json:"status"` // ACCEPTED
	RailReference string `json:"railReference"`
}

// Kind is one way in which the rail behaves badly.
type Kind string

// The faults. None behaves well, after the latency.
const (
	None             Kind = "none"
	Decline          Kind = "decline"           // 402, no money moves
	ServerError      Kind = "server-error"      // 503 after taking the money
	DropBefore       Kind = "drop-before"       // closes the connection, no money moved
	DropAfter        Kind = "drop-after"        // takes the money, then closes the connection
	MalformedAck     Kind = "malformed-ack"     // takes the money, answers 200 with a body that is no acknowledgement
	TruncatedAck     Kind = "truncated-ack"     // takes the money, the answer ends early
	DoubleAck        Kind = "double-ack"        // takes the money once, sends two acknowledgements in one answer
	UnexpectedStatus Kind = "unexpected-status" // answers 409, no money moves
	Hang             Kind = "hang"              // takes the money and answers after LatencyMillis, a minute when absent
	// InvalidRequest is no fault: it marks a request in the log that asked for nothing the rail could do.
	InvalidRequest Kind = "invalid-request"
)

// Fault is a behaviour: for every submission, or for those of one client reference.
type Fault struct {
	ClientRef     string `json:"clientRef,omitempty"`
	Kind          Kind   `json:"kind"`
	LatencyMillis *int64 `json:"latencyMillis,omitempty"` // instead of the stub's own latency
	// PerMille is how many of 1000 submissions get this fault, drawn with the stub's seed; 1000 when absent.
	PerMille *int `json:"perMille,omitempty"`
}

// Faults are the behaviours in force. PUT /faults replaces them all.
type Faults struct {
	Faults            []Fault `json:"faults"`
	LookupDelayMillis *int64  `json:"lookupDelayMillis,omitempty"` // how late a transfer shows in GET /transfers
}

// Request is one line of the stub's own log: every submission that arrived, whatever became of it.
type Request struct {
	Sequence    int64          `json:"sequence"`
	ClientRef   string         `json:"clientRef"`
	AmountMinor int64          `json:"amountMinor"`
	Currency    money.Currency `json:"currency"`
	Fault       Kind           `json:"fault"`
	MoneyMoved  bool           `json:"moneyMoved"`
	ReceivedAt  time.Time      `json:"receivedAt"`
}

// Requests is the stub's log, oldest first. StartedAt tells one life of the stub from another: the log
// is kept in memory, so an empty one after a restart proves nothing.
type Requests struct {
	StartedAt time.Time `json:"startedAt"`
	Requests  []Request `json:"requests"`
}

// Transfer is a transfer that the stub made.
type Transfer struct {
	RailReference string         `json:"railReference"`
	ClientRef     string         `json:"clientRef"`
	AmountMinor   int64          `json:"amountMinor"`
	Currency      money.Currency `json:"currency"`
	At            time.Time      `json:"at"`
}

// Transfers is the answer of the rail's look-up.
type Transfers struct {
	Transfers []Transfer `json:"transfers"`
}

// Client reads a stub's evidence and sets its faults. It cannot submit: the rail-proxy is the only
// process that may.
type Client struct{ http *httpclient.Client }

// NewClient makes a client of the stub at base.
func NewClient(base string) (*Client, error) {
	c, err := httpclient.New(base, httpclient.Identity{}, httpclient.Hop{Connect: 500 * time.Millisecond, Whole: 5 * time.Second, Retries: 2})
	return &Client{c}, err
}

// SetFaults replaces the behaviours in force.
func (c *Client) SetFaults(ctx context.Context, f Faults) error {
	return c.http.Do(ctx, httpclient.Call{Method: http.MethodPut, Path: "/faults", Body: f}, nil)
}

// AddFault adds one behaviour to those in force, replacing one of the same client reference; safe for
// several callers at once, each with client references of its own.
func (c *Client) AddFault(ctx context.Context, f Fault) error {
	return c.http.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/faults", Body: f}, nil)
}

// Requests reads the log, of one client reference unless it is "".
func (c *Client) Requests(ctx context.Context, clientRef string) (*Requests, error) {
	var r Requests
	err := c.http.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/requests", Query: byRef(clientRef)}, &r)
	return &r, err
}

// Transfers is the rail's look-up.
func (c *Client) Transfers(ctx context.Context, clientRef string) (*Transfers, error) {
	var t Transfers
	err := c.http.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/transfers", Query: byRef(clientRef)}, &t)
	return &t, err
}

func byRef(clientRef string) url.Values {
	if clientRef == "" {
		return nil
	}
	return url.Values{"clientRef": {clientRef}}
}
