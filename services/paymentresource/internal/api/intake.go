package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/intake"
)

// maxBatchBody is the size above which a batch is refused, in bytes; it holds paymentapi.MaxBatch payouts.
const maxBatchBody = 1 << 20

func (a *api) createAccount(c *gin.Context) (int, any, error) {
	if _, err := httpserver.OwnerID(c); err != nil {
		return 0, nil, err
	}
	var r paymentapi.CreateAccountRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	p.account("accountId", r.AccountID)
	for _, prefix := range intake.ReservedPrefixes {
		if strings.HasPrefix(r.AccountID, prefix) {
			p.add("accountId", "ids that begin with %s are the clearing accounts'", prefix)
		}
	}
	p.currency("currency", r.Currency)
	p.above("openingMinor", r.OpeningMinor, -1)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	ctx := c.Request.Context()
	if err := a.intake.CreateAccount(ctx, r); err != nil {
		return 0, nil, err
	}
	account, err := a.query.Account(ctx, r.AccountID)
	return http.StatusCreated, account, err
}

func (a *api) fund(c *gin.Context) (int, any, error) {
	if _, err := httpserver.OwnerID(c); err != nil {
		return 0, nil, err
	}
	accountID, err := httpserver.PathAccount(c, "id")
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.FundingRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	p := problems{}
	p.text("externalRef", r.ExternalRef, 1, maxRef)
	if strings.HasPrefix(r.ExternalRef, intake.OpeningRef) {
		p.add("externalRef", "references that begin with %s are those of accounts' openings", intake.OpeningRef)
	}
	p.above("amountMinor", r.AmountMinor, 0)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	funding, err := a.intake.Fund(c.Request.Context(), accountID, r)
	return http.StatusCreated, funding, err
}

func (a *api) createPayout(c *gin.Context) (int, any, error) {
	owner, err := httpserver.OwnerID(c)
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.CreatePayoutRequest
	if err := httpserver.Body(c, &r); err != nil {
		return 0, nil, err
	}
	alone := func(_ int, name string) string { return name }
	p := problems{}
	p.payout(r, 0, alone)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	payouts, _, err := a.intake.CreatePayouts(c.Request.Context(), []paymentapi.CreatePayoutRequest{r}, owner, alone)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, payouts[0], nil
}

func (a *api) createPayouts(c *gin.Context) (int, any, error) {
	owner, err := httpserver.OwnerID(c)
	if err != nil {
		return 0, nil, err
	}
	var r paymentapi.CreatePayoutsRequest
	if err := httpserver.BodyLimit(c, &r, maxBatchBody); err != nil {
		return 0, nil, err
	}
	if n := len(r.Payouts); n < 1 || n > paymentapi.MaxBatch {
		return 0, nil, apierr.Field("payouts", "want 1 to %d payouts, got %d", paymentapi.MaxBatch, n)
	}
	numbered := func(i int, name string) string { return "payouts[" + strconv.Itoa(i) + "]." + name }
	p, seen := problems{}, make(map[string]int, len(r.Payouts))
	for i, one := range r.Payouts {
		p.payout(one, i, numbered)
		if first, again := seen[one.ExternalRef]; again {
			p.add(numbered(i, "externalRef"), "the same as that of payouts[%d]", first)
		} else {
			seen[one.ExternalRef] = i
		}
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if r.CheckOnly {
		known, err := a.intake.CheckPayouts(c.Request.Context(), r.Payouts, numbered)
		return http.StatusOK, paymentapi.CreatePayoutsResponse{Created: len(r.Payouts) - len(known), Payouts: known}, err
	}
	payouts, created, err := a.intake.CreatePayouts(c.Request.Context(), r.Payouts, owner, numbered)
	return http.StatusCreated, paymentapi.CreatePayoutsResponse{Created: created, Payouts: payouts}, err
}

func (p problems) payout(r paymentapi.CreatePayoutRequest, i int, field func(int, string) string) {
	p.text(field(i, "externalRef"), r.ExternalRef, 1, maxRef)
	p.account(field(i, "accountId"), r.AccountID)
	p.above(field(i, "amountMinor"), r.AmountMinor, 0)
	p.currency(field(i, "currency"), r.Currency)
	p.text(field(i, "beneficiaryRef"), r.BeneficiaryRef, 1, maxReference)
}
