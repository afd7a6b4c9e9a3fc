package activities

import (
	"time"

	"railguard/services/lockapi"
)

// Timing is how long a payout may hold and wait; the worker checks the relations between the values
// before it starts.
type Timing struct {
	LockTTL      time.Duration // the lease asked for
	LockWait     time.Duration // how long one try of acquire lets the server wait
	SafetyMargin float64       // the fraction of the TTL that is not counted on
	SubmitBudget time.Duration // the whole submit call
	WorkDuration time.Duration // sleep between the last held-check and the write; for experiments only
}

// AcquireBound is the longest that AcquireLock takes.
func (t Timing) AcquireBound() time.Duration { return lockapi.AcquireBound(t.LockWait) }

// SubmitBound is the longest that SubmitToRail takes.
func (t Timing) SubmitBound() time.Duration {
	return lockapi.AdoptBound + t.WorkDuration + t.SubmitBudget
}

// Reserve is what must remain of a lease of the given TTL when a submission starts: the worst-case submission and the
// safety margin.
func (t Timing) Reserve(ttl time.Duration) time.Duration {
	return t.SubmitBudget + lockapi.Margin(ttl, t.SafetyMargin)
}
