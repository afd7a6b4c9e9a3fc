// Package lockapi is the wire form of the lock-server and its typed client.
package lockapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"railguard/services/fencing"
	"railguard/services/httpclient"
)

// CreateSessionRequest opens a session (L1): a lease that groups the locks of a long-lived client.
// OwnerID must equal the X-Owner-Id header.
type CreateSessionRequest struct {
	OwnerID   string `json:"ownerId"`
	TTLMillis int64  `json:"ttlMillis"` // 1000 to 60000
}

// Session is an open session.
type Session struct {
	SessionID string    `json:"sessionId"` // a UUID
	OwnerID   string    `json:"ownerId"`
	TTLMillis int64     `json:"ttlMillis"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// AcquireRequest asks for a lock (L4). WaitMillis of 0 answers at once.
type AcquireRequest struct {
	TTLMillis  int64  `json:"ttlMillis,omitempty"` // the server's default when absent
	WaitMillis int64  `json:"waitMillis"`          // 0 to 30000
	SessionID  string `json:"sessionId,omitempty"`
}

// Grant is a lock held: key, owner, token and lease. TTLMillis is what was granted, never less than
// what was asked for.
type Grant struct {
	Key          string        `json:"key"`
	OwnerID      string        `json:"ownerId"`
	SessionID    string        `json:"sessionId,omitempty"`
	FencingToken fencing.Token `json:"fencingToken"`
	TTLMillis    int64         `json:"ttlMillis"`
	AcquiredAt   time.Time     `json:"acquiredAt"`
	ExpiresAt    time.Time     `json:"expiresAt"`
}

// RenewRequest asks for a later expiry of a grant (L5); the TTL of the grant when absent.
type RenewRequest struct {
	TTLMillis int64 `json:"ttlMillis,omitempty"`
}

// Lock is what L7 says about a key. It is advisory: it may be out of date before it is read, and
// nothing may be decided by it.
type Lock struct {
	Key          string        `json:"key"`
	Held         bool          `json:"held"`
	OwnerID      string        `json:"ownerId,omitempty"`
	SessionID    string        `json:"sessionId,omitempty"`
	FencingToken fencing.Token `json:"fencingToken,omitempty"` // of the last grant or floor, also when free
	AcquiredAt   *time.Time    `json:"acquiredAt,omitempty"`
	ExpiresAt    *time.Time    `json:"expiresAt,omitempty"`
	Advisory     string        `json:"advisory"` // says so to whoever reads the answer
}

// RevokeRequest takes a lock from its holder (L8). Operator is free text for the record; the caller's
// bearer token is what authorises it.
type RevokeRequest struct {
	Operator      string        `json:"operator"`
	Reason        string        `json:"reason"` // at least 8 characters
	ExpectedToken fencing.Token `json:"expectedToken,omitempty"`
}

// Revocation is what L8 did. No grant of the key will ever carry a token at or below NewTokenFloor.
type Revocation struct {
	Key           string        `json:"key"`
	RevokedToken  fencing.Token `json:"revokedToken"`
	NewTokenFloor fencing.Token `json:"newTokenFloor"`
	RevocationID  string        `json:"revocationId"`
}

// AdvanceRequest lifts the token source after a restore (L9): above is the highest token that any
// guard has stored, at most fencing.MaxFloor.
type AdvanceRequest struct {
	Above    fencing.Token `json:"above"`
	Operator string        `json:"operator"`
	Reason   string        `json:"reason"`
}

// Advance is what L9 did: every later token is above Floor.
type Advance struct {
	Floor fencing.Token `json:"floor"`
}

// Client calls a lock-server. Errors are those of httpclient.Client.Do.
type Client struct {
	acquire, renew, reads *httpclient.Client
}

// acquireOverhead is what a call of acquire may take beyond the time it asks the server to wait.
const acquireOverhead = 2 * time.Second

// renewWhole is what a call of renew, of release and of the sessions may take.
const renewWhole = 2 * time.Second

// NewClient makes a client of the lock-server at base.
func NewClient(base string, id httpclient.Identity) (*Client, error) {
	acquire, err := httpclient.New(base, id, httpclient.Hop{Connect: 500 * time.Millisecond, Whole: acquireOverhead})
	if err != nil {
		return nil, err
	}
	renew, err := httpclient.New(base, id, httpclient.Hop{Connect: 500 * time.Millisecond, Whole: renewWhole})
	if err != nil {
		return nil, err
	}
	reads, err := httpclient.New(base, id, httpclient.Reads)
	if err != nil {
		return nil, err
	}
	return &Client{acquire: acquire, renew: renew, reads: reads}, nil
}

func lockPath(key string) string { return "/v1/locks/" + url.PathEscape(key) }

// CreateSession is L1.
func (c *Client) CreateSession(ctx context.Context, ownerID string, ttl time.Duration) (*Session, error) {
	var s Session
	err := c.renew.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/sessions", OwnerID: ownerID,
		Body: CreateSessionRequest{OwnerID: ownerID, TTLMillis: ttl.Milliseconds()}}, &s)
	return &s, err
}

// Heartbeat is L2: SESSION_UNKNOWN and SESSION_EXPIRED are told apart.
func (c *Client) Heartbeat(ctx context.Context, ownerID, sessionID string) (*Session, error) {
	var s Session
	err := c.renew.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/sessions/" + url.PathEscape(sessionID) + "/heartbeat", OwnerID: ownerID}, &s)
	return &s, err
}

// EndSession is L3: it releases the session's locks.
func (c *Client) EndSession(ctx context.Context, ownerID, sessionID string) error {
	return c.renew.Do(ctx, httpclient.Call{Method: http.MethodDelete, Path: "/v1/sessions/" + url.PathEscape(sessionID), OwnerID: ownerID}, nil)
}

// Acquire is L4. The call may take the request's wait and two seconds more. The same owner asking
// again while its grant lives gets the same token with a fresh lease.
func (c *Client) Acquire(ctx context.Context, key, ownerID string, r AcquireRequest) (*Grant, error) {
	var g Grant
	err := c.acquire.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: lockPath(key) + "/acquire", OwnerID: ownerID,
		Body: r, Whole: time.Duration(r.WaitMillis)*time.Millisecond + acquireOverhead}, &g)
	return &g, err
}

// Renew is L5: the same token with a later expiry, or LOCK_LOST.
func (c *Client) Renew(ctx context.Context, token fencing.Token, key, ownerID string, ttl time.Duration) (*Grant, error) {
	if err := httpclient.RequireToken(token); err != nil {
		return nil, err
	}
	var g Grant
	err := c.renew.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: lockPath(key) + "/renew", Token: token, OwnerID: ownerID,
		Body: RenewRequest{TTLMillis: ttl.Milliseconds()}}, &g)
	return &g, err
}

// Release is L6: it frees the lock if (key, token) still holds it; LOCK_LOST is benign.
func (c *Client) Release(ctx context.Context, token fencing.Token, key, ownerID string) error {
	if err := httpclient.RequireToken(token); err != nil {
		return err
	}
	return c.renew.Do(ctx, httpclient.Call{Method: http.MethodDelete, Path: lockPath(key), Token: token, OwnerID: ownerID}, nil)
}

// Get is L7, advisory.
func (c *Client) Get(ctx context.Context, key string) (*Lock, error) {
	var l Lock
	err := c.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: lockPath(key)}, &l)
	return &l, err
}

// Revoke is L8.
func (c *Client) Revoke(ctx context.Context, ownerID, key string, r RevokeRequest) (*Revocation, error) {
	var v Revocation
	err := c.renew.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: lockPath(key) + "/revoke", OwnerID: ownerID, Body: r}, &v)
	return &v, err
}

// AdvanceTokens is L9.
func (c *Client) AdvanceTokens(ctx context.Context, ownerID string, r AdvanceRequest) (*Advance, error) {
	var a Advance
	err := c.renew.Do(ctx, httpclient.Call{Method: http.MethodPost, Path: "/v1/tokens/advance", OwnerID: ownerID, Body: r}, &a)
	return &a, err
}
