package api

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/paymentapi"
)

const defaultLimit = 100

func (a *api) getAccount(c *gin.Context) (int, any, error) {
	id, err := httpserver.PathAccount(c, "id")
	if err != nil {
		return 0, nil, err
	}
	account, err := a.query.Account(c.Request.Context(), id)
	return http.StatusOK, account, err
}

func (a *api) getPayout(c *gin.Context) (int, any, error) {
	id, err := httpserver.PathUUID(c, "id")
	if err != nil {
		return 0, nil, err
	}
	payout, err := a.query.Payout(c.Request.Context(), id)
	return http.StatusOK, payout, err
}

func (a *api) highestFence(c *gin.Context) (int, any, error) {
	highest, err := a.fences.Highest(c.Request.Context())
	return http.StatusOK, fencing.Highest{Highest: highest}, err
}

func (a *api) listPayouts(c *gin.Context) (int, any, error) {
	limit, err := httpserver.QueryInt(c, "limit", defaultLimit, 1, 500)
	if err != nil {
		return 0, nil, err
	}
	for name, values := range c.Request.URL.Query() {
		switch name {
		case "state", "accountId", "limit", "cursor", "onePerAccount":
			if len(values) > 1 {
				return 0, nil, apierr.Field(name, "given %d times", len(values))
			}
		default:
			return 0, nil, apierr.Field(name, "no such parameter")
		}
	}
	r := paymentapi.ListPayoutsRequest{State: paymentapi.PayoutState(c.Query("state")), AccountID: c.Query("accountId"),
		Limit: limit, Cursor: c.Query("cursor"), OnePerAccount: c.Query("onePerAccount") == "true"}
	p := problems{}
	if _, given := c.GetQuery("state"); given {
		p.oneOf("state", string(r.State), states()...)
	}
	if _, given := c.GetQuery("accountId"); given {
		p.account("accountId", r.AccountID)
	}
	if one, given := c.GetQuery("onePerAccount"); given {
		p.oneOf("onePerAccount", one, "true", "false")
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	page, err := a.query.Payouts(c.Request.Context(), r)
	return http.StatusOK, page, err
}

func states() []string {
	names := make([]string, 0, len(paymentapi.States))
	for _, state := range paymentapi.States {
		names = append(names, string(state))
	}
	return names
}
