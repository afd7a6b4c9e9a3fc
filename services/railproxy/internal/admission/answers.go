package admission

import (
	"context"

	"railguard/services/apierr"
	"railguard/services/railapi"
	"railguard/services/railproxy/internal/rail"
	"railguard/services/railproxy/internal/store"
)

// refuse counts, logs and words a judgement that admits nothing.
func (s *Service) refuse(ctx context.Context, r store.Request, j store.Judgement) error {
	if j.AlreadyPresented {
		s.metrics.duplicates.Inc()
		s.log.ErrorContext(ctx, "duplicate_rail_submission_attempted", "payoutId", r.PayoutID, "accountId", r.AccountID,
			"presentedToken", r.Token, "ownerId", r.OwnerID, "existingSubmissionId", j.Submission.SubmissionID)
	}
	switch j.Verdict {
	case store.FencedOut:
		s.metrics.fencedOut.Inc()
		s.metrics.recorded(railapi.Fenced)
		s.log.ErrorContext(ctx, "fenced_out", "resource", "rail", "resourceId", r.AccountID, "payoutId", r.PayoutID,
			"presentedToken", r.Token, "highestToken", j.Highest, "ownerId", r.OwnerID)
		return apierr.New(apierr.FencedOut, "token %d is not above %d, the highest that the rail guard has accepted for the account", r.Token, j.Highest).
			With("presentedToken", r.Token).With("highestToken", j.Highest).With("resourceType", "rail").
			With("resourceId", r.AccountID).With("ownerId", r.OwnerID).With("submissionId", j.Submission.SubmissionID)
	case store.Duplicate:
		return described(apierr.New(apierr.DuplicateSubmission, "this payout was submitted before"), j.Submission)
	}
	return apierr.New(apierr.IdempotencyConflict, "this payout or this idempotency key was submitted with something else before").
		With("submissionId", j.Submission.SubmissionID)
}

// answer logs and words what the rail made of a submission, after it was recorded.
func (s *Service) answer(ctx context.Context, record *railapi.Submission, result rail.Result) (*railapi.Submission, error) {
	attributes := []any{"submissionId", record.SubmissionID, "payoutId", record.PayoutID, "accountId", record.AccountID,
		"presentedToken", record.PresentedToken, "ownerId", record.OwnerID, "outcome", record.Outcome}
	if result.Reason != "" {
		attributes = append(attributes, "reason", result.Reason)
	}
	if result.Outcome == railapi.Unsent {
		s.log.WarnContext(ctx, "rail_unavailable", attributes...)
		return nil, described(apierr.New(apierr.RailUnavailable, "nothing was presented to the rail"), *record)
	}
	s.log.InfoContext(ctx, "rail_submitted", attributes...)
	switch result.Outcome {
	case railapi.Acked:
		return record, nil
	case railapi.Rejected:
		return nil, described(apierr.New(apierr.Rejected, "the rail declined the payout"), *record)
	}
	s.log.ErrorContext(ctx, "rail_ambiguous", attributes...)
	return nil, described(apierr.New(apierr.RailAmbiguous, "the rail gave no clear answer; the money may have moved"), *record)
}

// described adds a record to a refusal's details.
func described(e *apierr.Error, record railapi.Submission) *apierr.Error {
	e = e.With("submissionId", record.SubmissionID).With("payoutId", record.PayoutID).With("accountId", record.AccountID).
		With("ownerId", record.OwnerID).With("presentedToken", record.PresentedToken).With("submittedAt", record.SubmittedAt)
	if record.Outcome != "" {
		e = e.With("outcome", record.Outcome).With("resolvedAt", record.ResolvedAt)
	}
	if record.RailReference != "" {
		e = e.With("railReference", record.RailReference)
	}
	return e
}
