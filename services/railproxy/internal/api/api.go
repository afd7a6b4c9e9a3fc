// Package api is the rail-proxy's HTTP surface.
package api

import (
	"log/slog"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/railapi"
	"railguard/services/railproxy/internal/admission"
	"railguard/services/railproxy/internal/rail"
	"railguard/services/railproxy/internal/store"
)

const (
	maxBeneficiary = 256 // characters
	// maxReason, in characters, and what a reason may hold are the same at both guards: whoever raises one fence must be able to
	// raise the other with the same words.
	maxReason = 1000
)

// API answers the routes under /v1/rail.
type API struct {
	Admission *admission.Service
	Store     *store.Store
	Rail      *rail.Rail
	Log       *slog.Logger
}

// Routes adds the routes to a server.
func (a *API) Routes(s *httpserver.Server) {
	executor := httpserver.Allow(httpserver.Executor)
	raiser := httpserver.Allow(httpserver.Operator, httpserver.Resolver)
	reader := httpserver.Allow(httpserver.AnyRole...)
	s.API.POST("/rail/submissions", executor, s.Handle(a.submit))
	s.API.GET("/rail/submissions/:payoutId", reader, s.Handle(a.submissions))
	s.API.GET("/rail/lookups/:clientRef", reader, s.Handle(a.lookup))
	s.API.POST("/rail/accounts/:accountId/fence", raiser, s.Handle(a.raiseFence))
	s.API.GET("/rail/fences/highest", reader, s.Handle(a.highestFence))
}

func (a *API) submit(c *gin.Context) (int, any, error) {
	request := store.Request{}
	var err error
	if request.Token, err = httpserver.FencingToken(c); err != nil {
		return 0, nil, err
	}
	if request.OwnerID, err = httpserver.OwnerID(c); err != nil {
		return 0, nil, err
	}
	if request.IdempotencyKey, err = httpserver.IdempotencyKey(c); err != nil {
		return 0, nil, err
	}
	if err := httpserver.Body(c, &request.SubmissionRequest); err != nil {
		return 0, nil, err
	}
	if err := check(request.SubmissionRequest); err != nil {
		return 0, nil, err
	}
	submission, err := a.Admission.Submit(c.Request.Context(), request)
	return http.StatusOK, submission, err
}

func check(r railapi.SubmissionRequest) error {
	wrong := make(map[string]string)
	if !httpserver.ValidUUID(r.PayoutID) {
		wrong["payoutId"] = "want a UUID in its canonical form"
	}
	if !httpserver.ValidAccountID(r.AccountID) {
		wrong["accountId"] = "want 1 to 64 characters of [A-Za-z0-9._-]"
	}
	if r.AmountMinor <= 0 {
		wrong["amountMinor"] = "want an integer above zero"
	}
	if _, err := r.Currency.Exponent(); err != nil {
		wrong["currency"] = "want a known ISO 4217 code"
	}
	if n := utf8.RuneCountInString(r.BeneficiaryRef); n < 1 || n > maxBeneficiary {
		wrong["beneficiaryRef"] = "want 1 to 256 characters"
	}
	if len(wrong) > 0 {
		return apierr.Fields(wrong)
	}
	return nil
}

func (a *API) submissions(c *gin.Context) (int, any, error) {
	payoutID, err := httpserver.PathUUID(c, "payoutId")
	if err != nil {
		return 0, nil, err
	}
	submissions, err := a.Store.Submissions(c.Request.Context(), payoutID)
	return http.StatusOK, railapi.Submissions{PayoutID: payoutID, Submissions: submissions}, err
}

func (a *API) lookup(c *gin.Context) (int, any, error) {
	clientRef, err := httpserver.PathUUID(c, "clientRef")
	if err != nil {
		return 0, nil, err
	}
	transfers, err := a.Rail.Lookup(c.Request.Context(), clientRef)
	if err != nil {
		a.Log.WarnContext(c.Request.Context(), "rail_lookup_failed", "clientRef", clientRef, "error", err.Error())
		return 0, nil, apierr.New(apierr.RailUnavailable, "the rail's look-up gave no usable answer")
	}
	return http.StatusOK, railapi.Lookup{ClientRef: clientRef, Transfers: transfers}, nil
}

func (a *API) raiseFence(c *gin.Context) (int, any, error) {
	accountID, err := httpserver.PathAccount(c, "accountId")
	if err != nil {
		return 0, nil, err
	}
	owner := c.GetHeader(httpclient.HeaderOwnerID)
	if owner != "" && !httpserver.ValidOwner(owner) {
		return 0, nil, apierr.Field(httpclient.HeaderOwnerID, "want 1 to 64 characters of [A-Za-z0-9._:-]")
	}
	var r fencing.RaiseRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	wrong := make(map[string]string)
	if !r.Floor.Valid() || r.Floor > fencing.MaxFloor {
		wrong["floor"] = "want an integer from 1 to 2^50"
	}
	if n := utf8.RuneCountInString(r.Reason); n < 1 || n > maxReason || strings.ContainsFunc(r.Reason, unicode.IsControl) {
		wrong["reason"] = "want 1 to 1000 characters, none of them a control character"
	}
	if len(wrong) > 0 {
		return 0, nil, apierr.Fields(wrong)
	}
	mark, err := a.Store.RaiseFence(c.Request.Context(), accountID, r.Floor)
	if err != nil {
		return 0, nil, err
	}
	a.Log.WarnContext(c.Request.Context(), "fence_raised", "resource", "rail", "resourceId", accountID, "floor", r.Floor,
		"fence", mark, "ownerId", owner, "caller", httpserver.CallerOf(c).Name, "reason", r.Reason)
	return http.StatusOK, fencing.Fence{AccountID: accountID, Fence: mark}, nil
}

func (a *API) highestFence(c *gin.Context) (int, any, error) {
	mark, err := a.Store.HighestFence(c.Request.Context())
	return http.StatusOK, fencing.Highest{Highest: mark}, err
}
