package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
	"railguard/services/money"
	"railguard/services/railapi"
)

// SubmitInput presents a claimed payout to the rail.
type SubmitInput struct {
	Key            string         `json:"key"` // of the lock that is held
	OwnerID        string         `json:"ownerId"`
	PayoutID       string         `json:"payoutId"`
	AccountID      string         `json:"accountId"`
	AmountMinor    int64          `json:"amountMinor"`
	Currency       money.Currency `json:"currency"`
	BeneficiaryRef string         `json:"beneficiaryRef"`
	IdempotencyKey string         `json:"idempotencyKey"`
}

// SubmitOutcome is what is known after the one submission.
type SubmitOutcome string

// The outcomes of SubmitToRail. Only Acked and Rejected are words of the rail. After NotHeld, Unavailable
// and SubmitFencedOut nothing was presented by this submission. Ambiguous is everything else.
const (
	Acked           SubmitOutcome = "acked"
	Rejected        SubmitOutcome = "rejected"
	Ambiguous       SubmitOutcome = "ambiguous"
	SubmitFencedOut SubmitOutcome = "fencedOut"
	Duplicate       SubmitOutcome = "duplicate"   // the payout was presented before
	Unavailable     SubmitOutcome = "unavailable" // provably nothing was presented
	NotHeld         SubmitOutcome = "notHeld"     // the worker's own check said no before anything was written
)

// SubmitResult is the outcome and the proxy's record of it, as far as it was told.
type SubmitResult struct {
	Outcome       SubmitOutcome `json:"outcome"`
	SubmissionID  string        `json:"submissionId,omitempty"`
	RailReference string        `json:"railReference,omitempty"`
	SubmittedAt   *time.Time    `json:"submittedAt,omitempty"`
	ResolvedAt    *time.Time    `json:"resolvedAt,omitempty"`
	Reason        string        `json:"reason,omitempty"`
}

// SubmitToRail presents the payout to the rail, through the proxy, with one request that is never
// repeated. It runs at most once by its options, and it may still run late, after its workflow gave it
// up: then the renewal that adopts the lease turns it away, and where even that fails the proxy's guard does.
// Once the request may have left it returns a value and no error.
func (a *Activities) SubmitToRail(ctx context.Context, token fencing.Token, in SubmitInput) (SubmitResult, error) {
	tag(ctx, token)
	// A worker that shuts down must not tear a request about money from its answer.
	ctx = context.WithoutCancel(ctx)
	log := a.Log.With("payoutId", in.PayoutID, "accountId", in.AccountID, "token", token, "ownerId", in.OwnerID)

	lease, err := a.Lock.Adopt(ctx, token, in.Key, in.OwnerID, a.Timing.SafetyMargin)
	if err != nil {
		a.noteLoss(ctx, log, err)
		return SubmitResult{Outcome: NotHeld, Reason: bounded(err.Error())}, nil
	}
	defer lease.Close()
	if err := lease.CheckStillHeld(); err != nil {
		a.noteLoss(ctx, log, err)
		return SubmitResult{Outcome: NotHeld, Reason: bounded(err.Error())}, nil
	}
	log.InfoContext(ctx, "submit_window_opened", "workMillis", a.Timing.WorkDuration.Milliseconds())
	time.Sleep(a.Timing.WorkDuration)

	result := a.submitOnce(ctx, token, in)
	a.noteLoss(ctx, log, lease.CheckStillHeld()) // it cancels nothing and undoes nothing
	return result, nil
}

// noteLoss counts and logs a held grant that was found lost.
func (a *Activities) noteLoss(ctx context.Context, log *slog.Logger, err error) {
	if !errors.Is(err, lockapi.ErrNotHeld) {
		return
	}
	a.SessionLost.Inc()
	log.ErrorContext(ctx, "session_lost", "reason", err.Error())
}

func (a *Activities) submitOnce(ctx context.Context, token fencing.Token, in SubmitInput) SubmitResult {
	submission, err := a.Rail.Submit(ctx, token, in.OwnerID, in.IdempotencyKey, railapi.SubmissionRequest{
		PayoutID:       in.PayoutID,
		AccountID:      in.AccountID,
		AmountMinor:    in.AmountMinor,
		Currency:       in.Currency,
		BeneficiaryRef: in.BeneficiaryRef,
	})
	if err != nil {
		return submitFailure(err)
	}
	return acknowledged(submission, token, in)
}

// acknowledged checks that the proxy's answer is an acknowledgement of this very submission; one that
// is not says nothing.
func acknowledged(s *railapi.Submission, token fencing.Token, in SubmitInput) SubmitResult {
	if s.PayoutID != in.PayoutID || s.PresentedToken != token || !complete(s) {
		return SubmitResult{Outcome: Ambiguous, SubmissionID: submissionID(s.SubmissionID), Reason: "the proxy's answer does not acknowledge this submission"}
	}
	return SubmitResult{
		Outcome:       Acked,
		SubmissionID:  s.SubmissionID,
		RailReference: s.RailReference,
		SubmittedAt:   &s.SubmittedAt,
		ResolvedAt:    s.ResolvedAt,
	}
}

// maxReference bounds a rail reference, in bytes. A longer one is never cut: it would be another reference.
const maxReference = 128

// complete reports whether a record is an acknowledgement with all that the ledger's guard asks for.
func complete(s *railapi.Submission) bool {
	return s.Outcome == railapi.Acked && s.RailReference != "" && len(s.RailReference) <= maxReference &&
		submissionID(s.SubmissionID) != "" && s.ResolvedAt != nil
}

// submitOutcomes is what each refusal of the proxy means for the payout. A code that is not here, and
// every failure without a code, is ambiguous, unless nothing was written.
var submitOutcomes = map[apierr.Code]SubmitOutcome{
	apierr.Rejected:            Rejected,
	apierr.RailAmbiguous:       Ambiguous,
	apierr.FencedOut:           SubmitFencedOut,
	apierr.DuplicateSubmission: Duplicate,
	apierr.RailUnavailable:     Unavailable,
	// Refused before admission, in the proxy's own words: nothing was recorded and nothing presented.
	apierr.ValidationFailed:    Unavailable,
	apierr.InvalidToken:        Unavailable,
	apierr.Unauthenticated:     Unavailable,
	apierr.Forbidden:           Unavailable,
	apierr.IdempotencyConflict: Unavailable,
}

func submitFailure(err error) SubmitResult {
	result := SubmitResult{Outcome: Ambiguous, Reason: bounded(err.Error())}
	var refused *apierr.Error
	if errors.As(err, &refused) {
		if outcome, ok := submitOutcomes[refused.Code]; ok {
			result.Outcome = outcome
		}
		result.SubmissionID = submissionID(detail(refused, "submissionId"))
		return result
	}
	var transport *httpclient.TransportError
	if errors.As(err, &transport) && transport.NothingWritten {
		result.Outcome = Unavailable
	}
	return result
}
