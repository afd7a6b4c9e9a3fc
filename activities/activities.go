// Package activities holds the steps of a payout: one exported method for each activity type, one file
// for each step. A business answer is a value in a step's result; an error is something that asking again may help, or
// a refusal that no repetition can change and that ends the workflow.
package activities

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"railguard/services/fencing"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
)

// LockServer is what the steps need of the lock-server; *lockapi.Client is one.
type LockServer interface {
	AcquireWithin(ctx context.Context, key, ownerID string, r lockapi.AcquireRequest) (*lockapi.Acquisition, error)
	Adopt(ctx context.Context, token fencing.Token, key, ownerID string, margin float64) (*lockapi.Lease, error)
	Release(ctx context.Context, token fencing.Token, key, ownerID string) error
}

// PaymentResource is what the steps need of the payment-resource; *paymentapi.Client is one.
type PaymentResource interface {
	GetPayout(ctx context.Context, payoutID string) (*paymentapi.Payout, error)
	Claim(ctx context.Context, token fencing.Token, ownerID, payoutID string, r paymentapi.ClaimRequest) (*paymentapi.Claim, error)
	Post(ctx context.Context, token fencing.Token, ownerID, idempotencyKey, payoutID string, r paymentapi.PostRequest) (*paymentapi.Posting, error)
	RecordRailOutcome(ctx context.Context, token fencing.Token, ownerID, idempotencyKey, payoutID string, r paymentapi.RailOutcomeRequest) (*paymentapi.PayoutStatus, error)
	AbandonClaim(ctx context.Context, token fencing.Token, ownerID, payoutID string, r paymentapi.AbandonRequest) (*paymentapi.PayoutStatus, error)
}

// RailProxy is what the steps need of the rail-proxy; *railapi.Client is one.
type RailProxy interface {
	Submit(ctx context.Context, token fencing.Token, ownerID, idempotencyKey string, r railapi.SubmissionRequest) (*railapi.Submission, error)
	Submissions(ctx context.Context, payoutID string) (*railapi.Submissions, error)
}

// Counter counts; a prometheus.Counter is one.
type Counter interface{ Inc() }

// Activities are the steps of ExecutePayout. Every exported method is an activity type. The token is the
// first argument of every step after the acquire.
type Activities struct {
	Lock        LockServer
	Payments    PaymentResource
	Rail        RailProxy
	Timing      Timing
	Log         *slog.Logger
	SessionLost Counter // held grants that were found lost
}

// tag makes the step findable by its token among the traces of all processes.
func tag(ctx context.Context, token fencing.Token) {
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int64("lock.token", int64(token)))
}
