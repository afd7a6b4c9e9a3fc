package activities

import (
	"context"

	"railguard/services/apierr"
	"railguard/services/fencing"
)

// ReleaseInput frees the lock of one account.
type ReleaseInput struct {
	Key     string `json:"key"`
	OwnerID string `json:"ownerId"`
}

// ReleaseOutcome is released or lost.
type ReleaseOutcome string

// The outcomes of ReleaseLock. Lost is benign: the lease had expired, or was revoked.
const (
	Released ReleaseOutcome = "released"
	Lost     ReleaseOutcome = "lost"
)

// ReleaseResult says whether the grant was still held.
type ReleaseResult struct {
	Outcome ReleaseOutcome `json:"outcome"`
}

// ReleaseLock frees the lock if this token still holds it. It is tried once: expiry is the fallback.
func (a *Activities) ReleaseLock(ctx context.Context, token fencing.Token, in ReleaseInput) (ReleaseResult, error) {
	tag(ctx, token)
	err := a.Lock.Release(ctx, token, in.Key, in.OwnerID)
	switch {
	case err == nil:
		return ReleaseResult{Outcome: Released}, nil
	case apierr.CodeOf(err) == apierr.LockLost:
		return ReleaseResult{Outcome: Lost}, nil
	}
	return ReleaseResult{}, failure(err)
}
