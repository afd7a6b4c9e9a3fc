package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"railguard/services/fencing"
	"railguard/services/lockapi"
	"railguard/services/lockserver/internal/lock"
)

// Signals is what the lock-server says about its work: metrics and log events.
type Signals struct {
	log     *slog.Logger
	acquire *prometheus.HistogramVec
	expired prometheus.Counter
	revoked prometheus.Counter
	held    prometheus.Gauge
}

// The outcomes of an acquire, as the label says them. Too many waiters and a caller that went away while it
// waited are contention.
const (
	outcomeGranted   = "granted"
	outcomeContended = "contended"
	outcomeError     = "error"
)

// NewSignals registers the metrics, each of their series at zero. waiting is read at every scrape.
func NewSignals(registry prometheus.Registerer, log *slog.Logger, backend string, waiting func() int) *Signals {
	labels := prometheus.Labels{"backend": backend}
	s := &Signals{
		log: log,
		acquire: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lock_acquire_seconds", Help: "Time to answer an acquire, waiting for the lock included.", ConstLabels: labels,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"outcome"}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lock_lease_expired_total", Help: "Grants that ended because their lease or session lapsed.", ConstLabels: labels}),
		revoked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lock_revoked_total", Help: "Revocations.", ConstLabels: labels}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lock_held_current", Help: "Grants that live, on all servers of the backend.", ConstLabels: labels}),
	}
	waiters := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lock_waiters_current", Help: "Callers that wait for a lock on this server.", ConstLabels: labels,
	}, func() float64 { return float64(waiting()) })
	registry.MustRegister(s.acquire, s.expired, s.revoked, s.held, waiters)
	for _, outcome := range []string{outcomeGranted, outcomeContended, outcomeError} {
		s.acquire.WithLabelValues(outcome)
	}
	return s
}

func (s *Signals) acquired(outcome string, began time.Time) {
	s.acquire.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
}

// granted is logged for every answer that carries a token, so that the events name every token that anybody may present (INV-07).
func (s *Signals) granted(ctx context.Context, g lock.Grant) {
	if g.Lapsed != nil {
		s.Expired(ctx, *g.Lapsed)
	}
	s.log.InfoContext(ctx, "lock_granted", "lockKey", g.Key, "token", int64(g.Token), "ownerId", g.OwnerID,
		"leaseMillis", g.TTL.Milliseconds(), "resumed", g.Resumed)
}

// Undone says that a grant was made and taken back because its caller had gone.
func (s *Signals) Undone(ctx context.Context, g lock.Grant, f lock.Freed) {
	s.granted(ctx, g)
	s.released(ctx, f)
}

func (s *Signals) released(ctx context.Context, f lock.Freed) {
	s.log.InfoContext(ctx, "lock_released", "lockKey", f.Key, "token", int64(f.Token), "ownerId", f.OwnerID,
		"heldMillis", f.Held.Milliseconds())
}

func (s *Signals) revocation(ctx context.Context, v lock.Revocation, r lock.Revoke) {
	s.revoked.Inc()
	s.log.WarnContext(ctx, "lock_revoked", "lockKey", v.Key, "token", int64(v.Revoked), "ownerId", v.OwnerID,
		"newTokenFloor", int64(v.Floor), "revocationId", v.ID, "operator", r.Operator, "reason", r.Reason)
}

func (s *Signals) advanced(ctx context.Context, r lockapi.AdvanceRequest, floor fencing.Token, caller string) {
	s.log.WarnContext(ctx, "tokens_advanced", "above", int64(r.Above), "floor", int64(floor),
		"operator", r.Operator, "reason", r.Reason, "caller", caller)
}

// Expired says that a grant lapsed.
func (s *Signals) Expired(ctx context.Context, f lock.Freed) {
	s.expired.Inc()
	s.log.WarnContext(ctx, "lease_expired", "lockKey", f.Key, "token", int64(f.Token), "ownerId", f.OwnerID,
		"heldMillis", f.Held.Milliseconds())
}

// Held says how many grants live.
func (s *Signals) Held(n int64) { s.held.Set(float64(n)) }
