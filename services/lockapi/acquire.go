package lockapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"railguard/services/apierr"
)

// The bounds of AcquireWithin.
const (
	acquireTries     = 5
	acquireFirstWait = 50 * time.Millisecond
	acquireMaxWait   = time.Second
)

// Acquisition is a grant and how long the asking had taken when the try that was granted was sent. Its
// lease is reckoned from that moment, so waiting for the lock does not count against it.
type Acquisition struct {
	Grant Grant
	Spent time.Duration
}

// AcquireBound is the longest that AcquireWithin takes.
func AcquireBound(wait time.Duration) time.Duration {
	return acquireTries*(wait+acquireOverhead) + (acquireTries-1)*acquireMaxWait
}

// AcquireWithin asks for a lock up to five times, with full jitter between the tries. A try whose answer
// was lost may have been granted: the next one, of the same owner, gets the same token. The error of
// the last try is returned when none was granted; an answer that no repetition can change ends it at once.
func (c *Client) AcquireWithin(ctx context.Context, key, ownerID string, r AcquireRequest) (*Acquisition, error) {
	began := time.Now()
	bound := acquireFirstWait
	for try := 1; ; try++ {
		spent := time.Since(began)
		grant, err := c.Acquire(ctx, key, ownerID, r)
		if err == nil && (!grant.FencingToken.Valid() || grant.TTLMillis <= 0 || grant.OwnerID != ownerID) {
			err = errors.New("the grant carries no usable token, lease or owner")
		}
		if err == nil {
			return &Acquisition{Grant: *grant, Spent: spent}, nil
		}
		if try == acquireTries || !repeatable(err) {
			return nil, err
		}
		if !pause(ctx, backoff(err, bound)) {
			return nil, err
		}
		bound = min(2*bound, acquireMaxWait)
	}
}

// backoff is full jitter under the bound, or what the server asked for, within reason.
func backoff(err error, bound time.Duration) time.Duration {
	wait := rand.N(bound)
	var refused *apierr.Error
	if errors.As(err, &refused) && refused.RetryAfterMillis > 0 {
		wait = max(wait, time.Duration(refused.RetryAfterMillis)*time.Millisecond)
	}
	return min(wait, acquireMaxWait)
}

// repeatable reports whether asking again may help: no answer, or one that says so, or the server's own failure.
func repeatable(err error) bool {
	var refused *apierr.Error
	if !errors.As(err, &refused) {
		return true
	}
	return refused.RetrySafe || refused.Code == apierr.Internal
}

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
