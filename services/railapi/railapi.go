// Package railapi is the wire form of the rail-proxy and its typed client.
package railapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"railguard/services/fencing"
	"railguard/services/httpclient"
	"railguard/services/money"
)

// Outcome is what became of one submission. "" means that the intent is recorded and no outcome is:
// its writer may still be waiting for the rail, or may be gone.
type Outcome string

// The outcomes of a submission. Acked, Rejected, Timeout and the absence of an outcome count as
// presented (INV-02); Fenced and Unsent never reached the rail.
const (
	Acked    Outcome = "ACKED"
	Rejected Outcome = "REJECTED"
	Timeout  Outcome = "TIMEOUT"
	Fenced   Outcome = "FENCED"
	Unsent   Outcome = "UNSENT"
)

// SubmissionRequest presents a payout to the rail, once.
type SubmissionRequest struct {
	PayoutID       string         `json:"payoutId"` // a UUID; the client reference that the rail sees
	AccountID      string         `json:"accountId"`
	AmountMinor    int64          `json:"amountMinor"`
	Currency       money.Currency `json:"currency"`
	BeneficiaryRef string         `json:"beneficiaryRef"`
}

// Submission is one record of the proxy.
type Submission struct {
	SubmissionID   string         `json:"submissionId"` // a UUID
	PayoutID       string         `json:"payoutId"`
	AccountID      string         `json:"accountId"`
	OwnerID        string         `json:"ownerId"`
	PresentedToken fencing.Token  `json:"presentedToken"`
	AmountMinor    int64          `json:"amountMinor"`
	Currency       money.Currency `json:"currency"`
	Outcome        Outcome        `json:"outcome,omitempty"`
	RailReference  string         `json:"railReference,omitempty"`
	ProxyInstance  string         `json:"proxyInstance"`
	SubmittedAt    time.Time      `json:"submittedAt"`
	ResolvedAt     *time.Time     `json:"resolvedAt,omitempty"`
}

// Submissions are every record of one payout, oldest first.
type Submissions struct {
	PayoutID    string       `json:"payoutId"`
	Submissions []Submission `json:"submissions"`
}

// Transfer is a transfer that the rail says it made.
type Transfer struct {
	RailReference string         `json:"railReference"`
	ClientRef     string         `json:"clientRef"`
	AmountMinor   int64          `json:"amountMinor"`
	Currency      money.Currency `json:"currency"`
	At            time.Time      `json:"at"`
}

// Lookup is what the rail says it knows under a client reference. The rail's look-up is eventually
// consistent: no transfer found does not mean that none was made.
type Lookup struct {
	ClientRef string     `json:"clientRef"`
	Transfers []Transfer `json:"transfers"`
}

// Info is the part of the proxy's /info that its callers use.
type Info struct {
	Service           string `json:"service"`
	Version           string `json:"version"`
	FencingEnabled    bool   `json:"fencingEnabled"`
	RailTimeoutMillis int64  `json:"railTimeoutMillis"`
}

// Client calls a rail-proxy. Errors are those of httpclient.Client.Do.
type Client struct {
	submit, writes, reads *httpclient.Client
}

// NewClient makes a client of the rail-proxy at base. submitBudget bounds a whole submission.
func NewClient(base string, id httpclient.Identity, submitBudget time.Duration) (*Client, error) {
	submit, err := httpclient.NewOnce(base, id, httpclient.Hop{Connect: time.Second, Whole: submitBudget})
	if err != nil {
		return nil, err
	}
	writes, err := httpclient.New(base, id, httpclient.Hop{Connect: 500 * time.Millisecond, Whole: 3 * time.Second})
	if err != nil {
		return nil, err
	}
	// A look-up passes through to the rail, so its whole is longer than that of the proxy's own reads.
	reads, err := httpclient.New(base, id, httpclient.Reads)
	if err != nil {
		return nil, err
	}
	return &Client{submit: submit, writes: writes, reads: reads}, nil
}

// Submit presents a payout to the rail under a token. It sends one request on a connection of its own
// and never repeats it. Any error but an *apierr.Error and a TransportError with NothingWritten leaves
// it unknown whether money moved.
func (c *Client) Submit(ctx context.Context, token fencing.Token, ownerID, idempotencyKey string, r SubmissionRequest) (*Submission, error) {
	if err := httpclient.RequireToken(token); err != nil {
		return nil, err
	}
	var s Submission
	err := c.submit.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/rail/submissions", Token: token, OwnerID: ownerID,
		IdempotencyKey: idempotencyKey, Body: r}, &s)
	return &s, err
}

// Submissions returns the proxy's own record of a payout. It never says that submitting is safe.
func (c *Client) Submissions(ctx context.Context, payoutID string) (*Submissions, error) {
	var s Submissions
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/v1/rail/submissions/" + url.PathEscape(payoutID)}, &s)
	return &s, err
}

// Lookup asks the rail, through the proxy, what it knows under a client reference.
func (c *Client) Lookup(ctx context.Context, clientRef string) (*Lookup, error) {
	var l Lookup
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/v1/rail/lookups/" + url.PathEscape(clientRef), Whole: 3 * time.Second}, &l)
	return &l, err
}

// RaiseFence raises the proxy's own fence of an account, never lowers it.
func (c *Client) RaiseFence(ctx context.Context, ownerID, accountID string, r fencing.RaiseRequest) (*fencing.Fence, error) {
	var f fencing.Fence
	err := c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/rail/accounts/" + url.PathEscape(accountID) + "/fence", OwnerID: ownerID, Body: r}, &f)
	return &f, err
}

// HighestFence is the highest token that the proxy has stored.
func (c *Client) HighestFence(ctx context.Context) (*fencing.Highest, error) {
	var h fencing.Highest
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/v1/rail/fences/highest"}, &h)
	return &h, err
}

// Info reads /info.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	var i Info
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/info"}, &i)
	return &i, err
}
