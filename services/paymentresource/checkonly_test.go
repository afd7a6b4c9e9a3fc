package paymentresource

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
)

func TestABatchThatIsCheckedOnlyWritesNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc-1", 10_000)
	request := func(ref, account string, amount int64) paymentapi.CreatePayoutRequest {
		return paymentapi.CreatePayoutRequest{ExternalRef: ref, AccountID: account, AmountMinor: amount, Currency: "EUR", BeneficiaryRef: "b"}
	}
	batch := func(checkOnly bool, requests ...paymentapi.CreatePayoutRequest) reply {
		return f.do(call{as: "intake", path: "/v1/payouts:batch", owner: "test",
			body: paymentapi.CreatePayoutsRequest{Payouts: requests, CheckOnly: checkOnly}})
	}
	var made, checked paymentapi.CreatePayoutsResponse
	batch(false, request("one", "acc-1", 1)).into(http.StatusCreated, &made)
	before := f.snapshot()

	batch(true, request("two", "acc-1", 2), request("one", "acc-1", 1)).into(http.StatusOK, &checked)
	require.Equal(t, paymentapi.CreatePayoutsResponse{Created: 1, Payouts: made.Payouts}, checked)
	batch(true, request("two", "acc-1", 2)).into(http.StatusOK, &checked)
	require.Equal(t, paymentapi.CreatePayoutsResponse{Created: 1, Payouts: []paymentapi.Payout{}}, checked)
	batch(true, request("two", "acc-1", 2), request("one", "acc-1", 3)).refused(apierr.IdempotencyConflict).
		detail("fields", map[string]any{"payouts[1].externalRef": "used for a payout with another body"})
	batch(true, request("two", "nobody", 2)).refused(apierr.ValidationFailed).
		detail("fields", map[string]any{"payouts[0].accountId": "no such customer's account"})
	require.Equal(t, before, f.snapshot())
}
