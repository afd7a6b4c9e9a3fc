package activities

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
	"railguard/services/railapi"
)

const (
	token          = fencing.Token(42)
	submissionUUID = "01890000-0000-7000-8000-00000000000a"
)

var submission = SubmitInput{
	Key: "payout:acc-1", OwnerID: "run-1", PayoutID: "01890000-0000-7000-8000-000000000001", AccountID: "acc-1",
	AmountMinor: 100, Currency: "EUR", BeneficiaryRef: "ben", IdempotencyKey: "key-1",
}

func refuse(w http.ResponseWriter, err *apierr.Error) {
	row, _ := apierr.Lookup(err.Code)
	w.WriteHeader(row.Status)
	_ = json.NewEncoder(w).Encode(err)
}

func grant(ttl time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(lockapi.Grant{FencingToken: token, OwnerID: "run-1", TTLMillis: ttl.Milliseconds()})
	}
}

func lost(w http.ResponseWriter, _ *http.Request) { refuse(w, apierr.New(apierr.LockLost, "m")) }

func acknowledge(change func(*railapi.Submission)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		at := time.Now()
		s := railapi.Submission{SubmissionID: submissionUUID, PayoutID: submission.PayoutID, PresentedToken: token,
			Outcome: railapi.Acked, RailReference: "ref-1", SubmittedAt: at, ResolvedAt: &at}
		change(&s)
		_ = json.NewEncoder(w).Encode(s)
	}
}

func asIs(*railapi.Submission) {}

// world is a worker's steps between a lock-server and a rail-proxy whose answers the test chooses.
type world struct {
	steps       *Activities
	submissions atomic.Int64
	lost        prometheus.Counter
}

func newWorld(t *testing.T, lock, rail http.HandlerFunc) *world {
	w := &world{lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "lost"})}
	locks := httptest.NewServer(lock)
	t.Cleanup(locks.Close)
	rails := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.submissions.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		rail(rw, r)
	}))
	t.Cleanup(rails.Close)
	lockClient, err := lockapi.NewClient(locks.URL, httpclient.Identity{})
	require.NoError(t, err)
	railClient, err := railapi.NewClient(rails.URL, httpclient.Identity{}, 5*time.Second)
	require.NoError(t, err)
	w.steps = &Activities{Lock: lockClient, Rail: railClient, Timing: Timing{SafetyMargin: 0.3}, Log: slog.New(slog.DiscardHandler), SessionLost: w.lost}
	return w
}

func (w *world) losses(t *testing.T) float64 {
	var m dto.Metric
	require.NoError(t, w.lost.Write(&m))
	return m.GetCounter().GetValue()
}

func TestOnlyAnAcknowledgementOfThisSubmissionIsOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rail    http.HandlerFunc
		outcome SubmitOutcome
	}{
		"acknowledged":         {acknowledge(asIs), Acked},
		"of another payout":    {acknowledge(func(s *railapi.Submission) { s.PayoutID = "other" }), Ambiguous},
		"under another token":  {acknowledge(func(s *railapi.Submission) { s.PresentedToken++ }), Ambiguous},
		"without a reference":  {acknowledge(func(s *railapi.Submission) { s.RailReference = "" }), Ambiguous},
		"with an endless one":  {acknowledge(func(s *railapi.Submission) { s.RailReference = strings.Repeat("x", 1<<20) }), Ambiguous},
		"without an id":        {acknowledge(func(s *railapi.Submission) { s.SubmissionID = "s-1" }), Ambiguous},
		"without a time":       {acknowledge(func(s *railapi.Submission) { s.ResolvedAt = nil }), Ambiguous},
		"with another outcome": {acknowledge(func(s *railapi.Submission) { s.Outcome = railapi.Timeout }), Ambiguous},
		"with none":            {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }, Ambiguous},
		"that is no JSON":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, Ambiguous},
		"connection lost":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Ambiguous},
		"declined": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, apierr.New(apierr.Rejected, "m").With("submissionId", submissionUUID))
		}, Rejected},
		"declined, odd status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"code":"REJECTED"}`)
		}, Ambiguous},
		"unavailable, odd status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			_, _ = io.WriteString(w, `{"code":"RAIL_UNAVAILABLE"}`)
		}, Ambiguous},
		"unavailable":              {func(w http.ResponseWriter, _ *http.Request) { refuse(w, apierr.New(apierr.RailUnavailable, "m")) }, Unavailable},
		"a load balancer's answer": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, grant(time.Minute), c.rail)
			result, err := w.steps.SubmitToRail(context.Background(), token, submission)
			require.NoError(t, err, "once the request may have left there is no error")
			require.Equal(t, c.outcome, result.Outcome)
			require.Equal(t, int64(1), w.submissions.Load(), "one request, whatever it is answered")
			require.Equal(t, c.outcome == Acked, result.RailReference == "ref-1")
			require.Zero(t, w.losses(t))
			encoded, err := json.Marshal(result)
			require.NoError(t, err)
			require.Less(t, len(encoded), 2000)
		})
	}
}

func TestNothingIsPresentedWithoutTheLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lock http.HandlerFunc
		lost float64
	}{
		"lost":      {lost, 1},
		"no leader": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, apierr.New(apierr.NotLeader, "m")) }, 0},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0},
		"granted and over by arrival": {func(w http.ResponseWriter, r *http.Request) {
			<-time.After(100 * time.Millisecond)
			grant(50*time.Millisecond)(w, r)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.lock, acknowledge(asIs))
			result, err := w.steps.SubmitToRail(context.Background(), token, submission)
			require.NoError(t, err)
			require.Equal(t, NotHeld, result.Outcome)
			require.Zero(t, w.submissions.Load())
			require.InDelta(t, c.lost, w.losses(t), 0)
		})
	}
}

func TestALossDuringTheSubmissionIsCountedAndUndoesNothing(t *testing.T) {
	t.Parallel()
	var renewals atomic.Int64
	refusedOnce := make(chan struct{})
	lock := func(w http.ResponseWriter, r *http.Request) {
		if renewals.Add(1) == 1 {
			grant(600*time.Millisecond)(w, r)
			return
		}
		lost(w, r)
		close(refusedOnce) // the keeping alive ends here, so there is no third
	}
	w := newWorld(t, lock, func(rw http.ResponseWriter, r *http.Request) {
		<-refusedOnce
		<-time.After(600 * time.Millisecond) // past the deadline too
		acknowledge(asIs)(rw, r)
	})
	result, err := w.steps.SubmitToRail(context.Background(), token, submission)
	require.NoError(t, err)
	require.Equal(t, Acked, result.Outcome)
	require.InDelta(t, 1, w.losses(t), 0)
}

func TestACancelledWorkerDoesNotTearASubmission(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld(t, grant(time.Minute), func(rw http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-r.Context().Done(): // the request was torn: no answer
		case <-time.After(200 * time.Millisecond):
			acknowledge(asIs)(rw, r)
		}
	})
	result, err := w.steps.SubmitToRail(ctx, token, submission)
	require.NoError(t, err)
	require.Equal(t, Acked, result.Outcome)
}

func TestTheWorkIsDoneBetweenTheCheckAndTheWriteWhileRenewalGoesOn(t *testing.T) {
	t.Parallel()
	var renewals, before atomic.Int64
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		renewals.Add(1)
		grant(600*time.Millisecond)(rw, r)
	}, func(rw http.ResponseWriter, r *http.Request) {
		before.Store(renewals.Load())
		acknowledge(asIs)(rw, r)
	})
	w.steps.Timing.WorkDuration = 1500 * time.Millisecond
	result, err := w.steps.SubmitToRail(context.Background(), token, submission)
	require.NoError(t, err)
	require.Equal(t, Acked, result.Outcome)
	require.GreaterOrEqual(t, before.Load(), int64(3), "renewals went on during the work")
	require.Zero(t, w.losses(t))
}
