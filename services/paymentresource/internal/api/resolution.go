package api

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/resolution"
)

func (a *api) resolve(c *gin.Context) (int, any, error) {
	h, err := fencedHeaders(c)
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.ResolutionRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	caller := httpserver.CallerOf(c)
	p := problems{}
	p.decision(r, caller)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if r.Outcome == paymentapi.ResolutionAbandoned && caller.Role != httpserver.Operator {
		return 0, nil, apierr.New(apierr.Forbidden, "only a person may decide %s", r.Outcome)
	}
	ctx := c.Request.Context()
	status, decided, err := a.resolution.Resolve(ctx, h.token, resolution.Request{
		PayoutID: h.payoutID, OwnerID: h.owner, DecidedBy: caller.Name, Outcome: r.Outcome, RailReference: r.RailReference,
		Evidence: r.Evidence, Reason: r.Reason, SecondOperator: r.SecondOperator, EvidenceOnly: r.EvidenceOnly,
		Automatic: caller.Role == httpserver.Resolver,
	})
	if err != nil {
		return 0, nil, a.seen(ctx, err)
	}
	if !decided {
		return http.StatusAccepted, status, nil
	}
	return http.StatusOK, status, nil
}

func (p problems) decision(r paymentapi.ResolutionRequest, caller httpserver.Caller) {
	p.oneOf("outcome", r.Outcome, paymentapi.ResolutionSettled, paymentapi.ResolutionAbsent, paymentapi.ResolutionAbandoned)
	if r.Outcome == paymentapi.ResolutionSettled {
		p.text("railReference", r.RailReference, 1, maxReference)
	} else if r.RailReference != "" {
		p.add("railReference", "belongs to %s alone", paymentapi.ResolutionSettled)
	}
	if r.Outcome != paymentapi.ResolutionAbandoned || len(r.Evidence) > 0 {
		p.evidence("evidence", r.Evidence)
	}
	p.text("reason", r.Reason, 1, maxReason)
	if r.EvidenceOnly && (caller.Role != httpserver.Resolver || r.Outcome == paymentapi.ResolutionAbandoned) {
		p.add("evidenceOnly", "is for the resolver, with %s or %s", paymentapi.ResolutionSettled, paymentapi.ResolutionAbsent)
	}
	if r.SecondOperator == "" {
		return
	}
	p.text("secondOperator", r.SecondOperator, 1, maxName)
	if caller.Role != httpserver.Operator {
		p.add("secondOperator", "only an operator names another one")
	}
	if r.SecondOperator == caller.Name {
		p.add("secondOperator", "must be another operator than the caller")
	}
}

func (a *api) cancel(c *gin.Context) (int, any, error) {
	owner, err := httpserver.OwnerID(c)
	if err != nil {
		return 0, nil, err
	}
	payoutID, err := httpserver.PathUUID(c, "id")
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.CancelRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	p.text("operator", r.Operator, 1, maxName)
	p.text("reason", r.Reason, 1, maxReason)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	reason := fmt.Sprintf("cancelled by %s (as %s): %s", r.Operator, httpserver.CallerOf(c).Name, r.Reason)
	status, err := a.resolution.Cancel(c.Request.Context(), payoutID, owner, reason)
	return http.StatusOK, status, err
}

func (a *api) raiseFence(c *gin.Context) (int, any, error) {
	owner, err := httpserver.OwnerID(c)
	if err != nil {
		return 0, nil, err
	}
	accountID, err := httpserver.PathAccount(c, "id")
	if err != nil {
		return 0, nil, err
	}
	var r fencing.RaiseRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	if r.Floor < 1 || r.Floor > fencing.MaxFloor {
		p.add("floor", "want an integer from 1 to %d", fencing.MaxFloor)
	}
	p.text("reason", r.Reason, 1, maxReason)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	ctx := c.Request.Context()
	fence, err := a.fences.Raise(ctx, accountID, r.Floor)
	if err != nil {
		return 0, nil, err
	}
	a.log.WarnContext(ctx, "fence_raised", "resource", "account", "resourceId", accountID, "floor", r.Floor, "fence", fence, "ownerId", owner,
		"caller", httpserver.CallerOf(c).Name, "reason", r.Reason)
	return http.StatusOK, fencing.Fence{AccountID: accountID, Fence: fence}, nil
}
