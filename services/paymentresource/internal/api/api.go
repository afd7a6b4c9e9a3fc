// Package api is payment-resource's HTTP surface: it checks the form of what comes in, calls one store and
// tells what came out.
package api

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/paymentresource/internal/claim"
	"railguard/services/paymentresource/internal/fences"
	"railguard/services/paymentresource/internal/intake"
	"railguard/services/paymentresource/internal/ledger"
	"railguard/services/paymentresource/internal/outcome"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/paymentresource/internal/query"
	"railguard/services/paymentresource/internal/resolution"
)

type api struct {
	log       *slog.Logger
	fencedOut *prometheus.CounterVec

	intake     *intake.Store
	claims     *claim.Store
	ledger     *ledger.Store
	outcomes   *outcome.Store
	resolution *resolution.Store
	fences     *fences.Store
	query      *query.Store
}

// Mount adds the routes and the metrics to a server. guarded is PAYMENT_FENCING_ENABLED.
func Mount(s *httpserver.Server, pool *pgxpool.Pool, guarded bool, log *slog.Logger) {
	a := &api{
		log: log,
		fencedOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lock_fenced_out_total",
			Help: "Writes refused because their token was older than the fence. Healthy at zero.",
		}, []string{"resource"}),
		intake:     &intake.Store{Pool: pool},
		claims:     &claim.Store{Pool: pool, Guarded: guarded},
		ledger:     &ledger.Store{Pool: pool, Guarded: guarded},
		outcomes:   &outcome.Store{Pool: pool, Guarded: guarded},
		resolution: &resolution.Store{Pool: pool},
		fences:     &fences.Store{Pool: pool},
		query:      &query.Store{Pool: pool},
	}
	a.registerMetrics(s.Registry, guarded)
	a.routes(s)
}

func (a *api) registerMetrics(registry *prometheus.Registry, guarded bool) {
	for _, resource := range []payout.Resource{payout.Account, payout.Ledger} {
		a.fencedOut.WithLabelValues(string(resource)) // there at zero: an absent series disarms its alert
	}
	enabled := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fencing_enabled", Help: "1 while the guard compares tokens.", ConstLabels: prometheus.Labels{"guard": "account"},
	})
	if guarded {
		enabled.Set(1)
	}
	registry.MustRegister(a.fencedOut, enabled)
}

func (a *api) routes(s *httpserver.Server) {
	read := httpserver.Allow(httpserver.AnyRole...)
	intake := httpserver.Allow(httpserver.Intake)
	execute := httpserver.Allow(httpserver.Executor)
	resolve := httpserver.Allow(httpserver.Resolver, httpserver.Operator)
	operate := httpserver.Allow(httpserver.Operator)

	v1 := s.API
	v1.POST("/accounts", intake, s.Handle(a.createAccount))
	v1.POST("/accounts/:id/funding", intake, s.Handle(a.fund))
	v1.POST("/payouts", intake, s.Handle(a.createPayout))
	v1.POST(`/payouts\:batch`, intake, s.Handle(a.createPayouts))

	v1.GET("/accounts/:id", read, s.Handle(a.getAccount))
	v1.GET("/payouts", read, s.Handle(a.listPayouts))
	v1.GET("/payouts/:id", read, s.Handle(a.getPayout))
	v1.GET("/fences/highest", read, s.Handle(a.highestFence))

	v1.POST("/payouts/:id/claim", execute, s.Handle(a.claim))
	v1.POST("/payouts/:id/post", execute, s.Handle(a.post))
	v1.POST("/payouts/:id/rail-outcome", execute, s.Handle(a.railOutcome))
	v1.POST("/payouts/:id/abandon-claim", execute, s.Handle(a.abandonClaim))

	v1.POST("/payouts/:id/resolution", resolve, s.Handle(a.resolve))
	v1.POST("/payouts/:id/cancel", operate, s.Handle(a.cancel))
	v1.POST("/accounts/:id/fence", resolve, s.Handle(a.raiseFence))
}

// seen counts and logs a refusal of the fence, and passes every error on. Each one is an incident.
func (a *api) seen(ctx context.Context, err error) error {
	var refusal *apierr.Error
	if !errors.As(err, &refusal) || refusal.Code != apierr.FencedOut {
		return err
	}
	resource, _ := refusal.Details["resourceType"].(payout.Resource)
	a.fencedOut.WithLabelValues(string(resource)).Inc()
	a.log.ErrorContext(ctx, "fenced_out", "resource", resource, "resourceId", refusal.Details["resourceId"],
		"presentedToken", refusal.Details["presentedToken"], "highestToken", refusal.Details["highestToken"],
		"ownerId", refusal.Details["ownerId"])
	return err
}

// fencedHeaders are what every write under a token carries. An invalid token is the first thing said.
func fencedHeaders(c *gin.Context) (h headers, err error) {
	if h.token, err = httpserver.FencingToken(c); err != nil {
		return h, err
	}
	if h.owner, err = httpserver.OwnerID(c); err != nil {
		return h, err
	}
	h.payoutID, err = httpserver.PathUUID(c, "id")
	return h, err
}
