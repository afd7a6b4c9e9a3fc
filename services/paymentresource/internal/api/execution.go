package api

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"railguard/services/httpserver"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/claim"
	"railguard/services/paymentresource/internal/ledger"
	"railguard/services/paymentresource/internal/outcome"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/telemetry"
)

func (a *api) claim(c *gin.Context) (int, any, error) {
	h, err := fencedHeaders(c)
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.ClaimRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	p.account("accountId", r.AccountID)
	p.oneOf("expectedState", r.ExpectedState, paymentapi.Claimable, string(paymentapi.Pending),
		string(paymentapi.Claimed), string(paymentapi.RailAcked))
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	ctx, span := telemetry.StartSpan(c.Request.Context(), "payment.claim", h.token)
	defer span.End()
	answer, err := a.claims.Claim(ctx, h.token, claim.Request{
		PayoutID: h.payoutID, AccountID: r.AccountID, ExpectedState: r.ExpectedState, OwnerID: h.owner,
	})
	return http.StatusOK, answer, a.seen(ctx, err)
}

const railAcked = "ACKED"

func (a *api) post(c *gin.Context) (int, any, error) {
	h, err := fencedHeaders(c)
	if err != nil {
		return 0, nil, err
	}
	key, err := httpserver.IdempotencyKey(c)
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.PostRequest
	if err := httpserver.OptionalBody(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	p.acknowledgement(r)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	ctx, span := telemetry.StartSpan(c.Request.Context(), "ledger.post", h.token)
	defer span.End()
	answer, err := a.ledger.Post(ctx, h.token, ledger.Request{
		PayoutID: h.payoutID, OwnerID: h.owner, IdempotencyKey: key, RailReference: r.RailReference,
		SubmissionID: r.SubmissionID, SubmittedAt: r.SubmittedAt, ResolvedAt: r.ResolvedAt,
	})
	return http.StatusOK, answer, a.seen(ctx, err)
}

// acknowledgement checks the rail's fields: all of them, or none.
func (p problems) acknowledgement(r paymentapi.PostRequest) {
	if r == (paymentapi.PostRequest{}) {
		return
	}
	p.text("railReference", r.RailReference, 1, maxReference)
	p.oneOf("railOutcome", r.RailOutcome, railAcked)
	if !httpserver.ValidUUID(r.SubmissionID) {
		p.add("submissionId", "want a UUID in its canonical form")
	}
	if r.SubmittedAt == nil {
		p.add("submittedAt", "required")
	}
	if r.ResolvedAt == nil {
		p.add("resolvedAt", "required")
	}
	// Their order is not checked: a database clock that was set back between the two must not keep money that has moved
	// from being posted.
}

func (a *api) railOutcome(c *gin.Context) (int, any, error) {
	h, err := fencedHeaders(c)
	if err != nil {
		return 0, nil, err
	}
	key, err := httpserver.IdempotencyKey(c)
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.RailOutcomeRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	p.oneOf("railOutcome", r.RailOutcome, "REJECTED", "TIMEOUT")
	p.optionalUUID("submissionId", r.SubmissionID)
	p.text("reason", r.Reason, 1, maxReason)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	event := payout.Unknown
	if r.RailOutcome == "REJECTED" {
		event = payout.Declined
	}
	ctx := c.Request.Context()
	status, fresh, err := a.outcomes.Record(ctx, h.token, outcome.Request{
		PayoutID: h.payoutID, OwnerID: h.owner, IdempotencyKey: key, Event: event, SubmissionID: r.SubmissionID, Reason: r.Reason,
	})
	if err == nil && fresh && status.State == paymentapi.RailAmbiguous {
		a.log.ErrorContext(ctx, "payout_ambiguous", "payoutId", h.payoutID, "accountId", status.AccountID,
			"token", h.token, "ownerId", h.owner, "submissionId", r.SubmissionID, "reason", r.Reason)
	}
	return http.StatusOK, status, a.seen(ctx, err)
}

func (a *api) abandonClaim(c *gin.Context) (int, any, error) {
	h, err := fencedHeaders(c)
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.AbandonRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	p.text("reason", r.Reason, 1, maxReason)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	ctx := c.Request.Context()
	status, err := a.outcomes.Abandon(ctx, h.token, h.payoutID, h.owner, r.Reason)
	return http.StatusOK, status, a.seen(ctx, err)
}
