package activities

import (
	"context"
	"errors"
	"time"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/lockapi"
)

// AcquireInput asks for the lock of one account for one workflow run.
type AcquireInput struct {
	Key     string `json:"key"`
	OwnerID string `json:"ownerId"`
}

// AcquireOutcome is granted or contended.
type AcquireOutcome string

// The outcomes of AcquireLock. An unavailable lock service is contended: nothing is done without a lock.
const (
	Granted   AcquireOutcome = "granted"
	Contended AcquireOutcome = "contended"
)

// AcquireResult is a grant with all that the workflow needs to reckon with its lease, so that a later
// change of a worker's configuration cannot change what a recorded history decided.
type AcquireResult struct {
	Outcome       AcquireOutcome `json:"outcome"`
	FencingToken  fencing.Token  `json:"fencingToken,omitempty"`
	TTLMillis     int64          `json:"ttlMillis,omitempty"`     // what was granted
	SpentMillis   int64          `json:"spentMillis,omitempty"`   // by this step, when it sent the try that was granted
	ReserveMillis int64          `json:"reserveMillis,omitempty"` // what must remain of the lease when a submission starts
	Reason        string         `json:"reason,omitempty"`
}

// AcquireLock asks for the lock, five times at most. The same owner asking again gets the same token.
func (a *Activities) AcquireLock(ctx context.Context, in AcquireInput) (AcquireResult, error) {
	got, err := a.Lock.AcquireWithin(ctx, in.Key, in.OwnerID, lockapi.AcquireRequest{
		TTLMillis:  a.Timing.LockTTL.Milliseconds(),
		WaitMillis: a.Timing.LockWait.Milliseconds(),
	})
	if err != nil {
		var refused *apierr.Error
		if errors.As(err, &refused) && decisions[refused.Code] == giveUp {
			return AcquireResult{}, failure(err)
		}
		return AcquireResult{Outcome: Contended, Reason: bounded(err.Error())}, nil
	}
	tag(ctx, got.Grant.FencingToken)
	ttl := time.Duration(got.Grant.TTLMillis) * time.Millisecond
	return AcquireResult{
		Outcome:       Granted,
		FencingToken:  got.Grant.FencingToken,
		TTLMillis:     got.Grant.TTLMillis,
		SpentMillis:   got.Spent.Milliseconds(),
		ReserveMillis: a.Timing.Reserve(ttl).Milliseconds(),
	}, nil
}
