package paymentapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"railguard/services/fencing"
	"railguard/services/httpclient"
)

// Client calls payment-resource. Errors are those of httpclient.Client.Do. A method that writes under
// a token takes it as its first argument after the context; without one there is no such call.
type Client struct {
	writes, reads *httpclient.Client
}

// NewClient makes a client of the payment-resource at base.
func NewClient(base string, id httpclient.Identity) (*Client, error) {
	writes, err := httpclient.New(base, id, httpclient.Hop{Connect: 500 * time.Millisecond, Whole: 3 * time.Second})
	if err != nil {
		return nil, err
	}
	reads, err := httpclient.New(base, id, httpclient.Reads)
	if err != nil {
		return nil, err
	}
	return &Client{writes: writes, reads: reads}, nil
}

func payoutPath(payoutID, operation string) string {
	return "/v1/payouts/" + url.PathEscape(payoutID) + operation
}

func accountPath(accountID, operation string) string {
	return "/v1/accounts/" + url.PathEscape(accountID) + operation
}

// CreateAccount is P0.
func (c *Client) CreateAccount(ctx context.Context, ownerID string, r CreateAccountRequest) (*Account, error) {
	var a Account
	err := c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/accounts", OwnerID: ownerID, Body: r}, &a)
	return &a, err
}

// Fund is P0.
func (c *Client) Fund(ctx context.Context, ownerID, accountID string, r FundingRequest) (*Funding, error) {
	var f Funding
	err := c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: accountPath(accountID, "/funding"), OwnerID: ownerID, Body: r}, &f)
	return &f, err
}

// CreatePayout is P0.
func (c *Client) CreatePayout(ctx context.Context, ownerID string, r CreatePayoutRequest) (*Payout, error) {
	var p Payout
	err := c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/payouts", OwnerID: ownerID, Body: r}, &p)
	return &p, err
}

// CreatePayouts is P0's batch: all or none.
func (c *Client) CreatePayouts(ctx context.Context, ownerID string, r CreatePayoutsRequest) (*CreatePayoutsResponse, error) {
	var p CreatePayoutsResponse
	err := c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/payouts:batch", OwnerID: ownerID, Body: r, Whole: 20 * time.Second}, &p)
	return &p, err
}

// ListPayouts is P1.
func (c *Client) ListPayouts(ctx context.Context, r ListPayoutsRequest) (*PayoutPage, error) {
	query := url.Values{}
	if r.State != "" {
		query.Set("state", string(r.State))
	}
	if r.AccountID != "" {
		query.Set("accountId", r.AccountID)
	}
	if r.Limit != 0 {
		query.Set("limit", strconv.Itoa(r.Limit))
	}
	if r.Cursor != "" {
		query.Set("cursor", r.Cursor)
	}
	if r.OnePerAccount {
		query.Set("onePerAccount", "true")
	}
	var p PayoutPage
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/v1/payouts", Query: query}, &p)
	return &p, err
}

// Claim is P2.
func (c *Client) Claim(ctx context.Context, token fencing.Token, ownerID, payoutID string, r ClaimRequest) (*Claim, error) {
	var claim Claim
	err := c.fenced(ctx, token, ownerID, "", payoutPath(payoutID, "/claim"), r, &claim)
	return &claim, err
}

// Post is P3.
func (c *Client) Post(ctx context.Context, token fencing.Token, ownerID, idempotencyKey, payoutID string, r PostRequest) (*Posting, error) {
	var p Posting
	err := c.fenced(ctx, token, ownerID, idempotencyKey, payoutPath(payoutID, "/post"), r, &p)
	return &p, err
}

// GetPayout is P4, advisory.
func (c *Client) GetPayout(ctx context.Context, payoutID string) (*Payout, error) {
	var p Payout
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: payoutPath(payoutID, "")}, &p)
	return &p, err
}

// GetAccount is P5.
func (c *Client) GetAccount(ctx context.Context, accountID string) (*Account, error) {
	var a Account
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: accountPath(accountID, "")}, &a)
	return &a, err
}

// RecordRailOutcome is P6.
func (c *Client) RecordRailOutcome(ctx context.Context, token fencing.Token, ownerID, idempotencyKey, payoutID string, r RailOutcomeRequest) (*PayoutStatus, error) {
	var s PayoutStatus
	err := c.fenced(ctx, token, ownerID, idempotencyKey, payoutPath(payoutID, "/rail-outcome"), r, &s)
	return &s, err
}

// AbandonClaim is P7.
func (c *Client) AbandonClaim(ctx context.Context, token fencing.Token, ownerID, payoutID string, r AbandonRequest) (*PayoutStatus, error) {
	var s PayoutStatus
	err := c.fenced(ctx, token, ownerID, "", payoutPath(payoutID, "/abandon-claim"), r, &s)
	return &s, err
}

// Resolve is P8.
func (c *Client) Resolve(ctx context.Context, token fencing.Token, ownerID, payoutID string, r ResolutionRequest) (*PayoutStatus, error) {
	var s PayoutStatus
	err := c.fenced(ctx, token, ownerID, "", payoutPath(payoutID, "/resolution"), r, &s)
	return &s, err
}

// Cancel is P9.
func (c *Client) Cancel(ctx context.Context, ownerID, payoutID string, r CancelRequest) (*PayoutStatus, error) {
	var s PayoutStatus
	err := c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: payoutPath(payoutID, "/cancel"), OwnerID: ownerID, Body: r}, &s)
	return &s, err
}

// RaiseFence is P10.
func (c *Client) RaiseFence(ctx context.Context, ownerID, accountID string, r fencing.RaiseRequest) (*fencing.Fence, error) {
	var f fencing.Fence
	err := c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: accountPath(accountID, "/fence"), OwnerID: ownerID, Body: r}, &f)
	return &f, err
}

// HighestFence is P10's read.
func (c *Client) HighestFence(ctx context.Context) (*fencing.Highest, error) {
	var h fencing.Highest
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/v1/fences/highest"}, &h)
	return &h, err
}

func (c *Client) fenced(ctx context.Context, token fencing.Token, ownerID, idempotencyKey, path string, body, out any) error {
	if err := httpclient.RequireToken(token); err != nil {
		return err
	}
	return c.writes.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: path, Token: token, OwnerID: ownerID,
		IdempotencyKey: idempotencyKey, Body: body}, out)
}
