// Package admission is the guard of the rail: it decides whether a submission may reach the rail, forwards it once, and
// records what became of it.
package admission

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"railguard/services/apierr"
	"railguard/services/railapi"
	"railguard/services/railproxy/internal/rail"
	"railguard/services/railproxy/internal/store"
	"railguard/services/telemetry"
)

const (
	// admitTimeout bounds the wait for the database before anything was sent. Together with the rail's timeout and
	// the outcome's write it stays within the caller's budget while the database is well.
	admitTimeout = 2 * time.Second
	// maxIntentAge is how old an intent may be when its request is written. An older one was held up, and the
	// world may have moved on.
	maxIntentAge = time.Second

	writeTimeout = 5 * time.Second // of one try to write an outcome
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// Service admits submissions.
type Service struct {
	store   *store.Store
	rail    *rail.Rail
	metrics *metrics
	log     *slog.Logger
}

// New makes the service and registers its metrics.
func New(s *store.Store, r *rail.Rail, registry prometheus.Registerer, log *slog.Logger) *Service {
	return &Service{store: s, rail: r, metrics: newMetrics(registry, s.Guarded()), log: log}
}

// Submit judges a request, forwards it to the rail at most once, and returns its record when the rail accepted it. Every
// other end is an *apierr.Error: FENCED_OUT, DUPLICATE_SUBMISSION and IDEMPOTENCY_CONFLICT from the
// judgement, REJECTED and RAIL_AMBIGUOUS from the rail, RAIL_UNAVAILABLE when provably nothing was presented.
//
// The end of ctx ends nothing: a caller that hangs up has no say in what happens to a submission.
func (s *Service) Submit(ctx context.Context, r store.Request) (*railapi.Submission, error) {
	ctx = context.WithoutCancel(ctx)
	id, err := store.NewSubmissionID()
	if err != nil {
		return nil, err
	}
	judgement, err := s.admit(ctx, id, r)
	switch {
	case errors.Is(err, store.ErrUnknown):
		return nil, s.withdraw(ctx, id, r)
	case err != nil:
		s.log.WarnContext(ctx, "admission_failed", "payoutId", r.PayoutID, "accountId", r.AccountID, "error", err.Error())
		return nil, apierr.New(apierr.RailUnavailable, "the guard's database did not answer; nothing was presented")
	case judgement.Verdict != store.Admitted:
		return nil, s.refuse(ctx, r, judgement)
	}
	result := s.forward(ctx, r, judgement)
	record, err := s.recordOutcome(ctx, judgement.Submission, result)
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, record, result)
}

func (s *Service) admit(ctx context.Context, id string, r store.Request) (store.Judgement, error) {
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	return s.store.Admit(ctx, id, r)
}

func (s *Service) forward(ctx context.Context, r store.Request, j store.Judgement) rail.Result {
	ctx, span := telemetry.StartSpan(ctx, "rail.forward", r.Token)
	defer span.End()
	return s.rail.Forward(ctx, rail.Transfer{ClientRef: r.PayoutID, AmountMinor: r.AmountMinor, Currency: r.Currency}, j.Since.Add(maxIntentAge))
}

// recordOutcome writes what became of a submission. It tries without limit: nobody else may write it, and an
// answer before it would leave the caller knowing more than the record.
func (s *Service) recordOutcome(ctx context.Context, intent railapi.Submission, result rail.Result) (*railapi.Submission, error) {
	var record railapi.Submission
	err := s.persist(ctx, intent.SubmissionID, func(ctx context.Context) error {
		var err error
		record, err = s.store.Resolve(ctx, intent.SubmissionID, result.Outcome, result.RailReference)
		return err
	})
	if err != nil {
		s.log.ErrorContext(ctx, "outcome_not_recorded", "submissionId", intent.SubmissionID, "payoutId", intent.PayoutID,
			"outcome", result.Outcome, "error", err.Error())
		return nil, described(apierr.New(apierr.RailAmbiguous, "the record of the submission does not take its outcome"), intent)
	}
	s.metrics.recorded(record.Outcome)
	return &record, nil
}

// withdraw settles an intent whose commit was not answered. It is never sent.
func (s *Service) withdraw(ctx context.Context, id string, r store.Request) error {
	refusal := apierr.New(apierr.RailUnavailable, "the guard's database lost the admission; nothing was presented")
	var record railapi.Submission
	committed := false
	err := s.persist(ctx, id, func(ctx context.Context) error {
		var err error
		record, committed, err = s.store.Withdraw(ctx, id, r)
		return err
	})
	if err != nil {
		s.log.ErrorContext(ctx, "outcome_not_recorded", "submissionId", id, "payoutId", r.PayoutID, "outcome", railapi.Unsent, "error", err.Error())
		return refusal
	}
	if committed {
		s.metrics.recorded(railapi.Unsent)
		refusal = described(refusal, record)
	}
	s.log.WarnContext(ctx, "rail_unavailable", "submissionId", id, "payoutId", r.PayoutID, "committed", committed, "reason", "the commit of the intent was not answered")
	return refusal
}

// persist repeats a write that is safe to repeat until the database has answered.
func (s *Service) persist(ctx context.Context, submissionID string, write func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		try, cancel := context.WithTimeout(ctx, writeTimeout)
		err := write(try)
		cancel()
		if err == nil || errors.Is(err, store.ErrOtherwiseResolved) {
			return err
		}
		s.log.ErrorContext(ctx, "outcome_write_failed", "submissionId", submissionID, "error", err.Error(), "pauseMillis", pause.Milliseconds())
		time.Sleep(pause/2 + rand.N(pause/2))
	}
}
