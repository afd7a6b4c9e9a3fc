package paymentresource

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
)

func (f *fixture) createAccount(r paymentapi.CreateAccountRequest) reply {
	f.t.Helper()
	return f.do(call{as: "intake", path: "/v1/accounts", owner: "test", body: r})
}

func (f *fixture) fund(account string, r paymentapi.FundingRequest) reply {
	f.t.Helper()
	return f.do(call{as: "intake", path: "/v1/accounts/" + account + "/funding", owner: "test", body: r})
}

func (f *fixture) createPayout(r paymentapi.CreatePayoutRequest) reply {
	f.t.Helper()
	return f.do(call{as: "intake", path: "/v1/payouts", owner: "test", body: r})
}

func (f *fixture) batch(requests ...paymentapi.CreatePayoutRequest) reply {
	f.t.Helper()
	return f.do(call{as: "intake", path: "/v1/payouts:batch", owner: "test", body: paymentapi.CreatePayoutsRequest{Payouts: requests}})
}

func order(ref, account string, amount int64) paymentapi.CreatePayoutRequest {
	return paymentapi.CreatePayoutRequest{ExternalRef: ref, AccountID: account, AmountMinor: amount, Currency: "EUR", BeneficiaryRef: "b"}
}

func TestAccountIsCreatedOnce(t *testing.T) {
	t.Parallel()
	f := start(t)
	request := paymentapi.CreateAccountRequest{AccountID: "acc", Currency: "EUR", OpeningMinor: 500}
	var first, again paymentapi.Account
	f.createAccount(request).into(http.StatusCreated, &first)
	before := f.snapshot()
	f.createAccount(request).into(http.StatusCreated, &again)
	require.Equal(t, first, again)
	for _, other := range []paymentapi.CreateAccountRequest{
		{AccountID: "acc", Currency: "USD", OpeningMinor: 500},
		{AccountID: "acc", Currency: "EUR", OpeningMinor: 501},
		{AccountID: "acc", Currency: "EUR"},
	} {
		f.createAccount(other).refused(apierr.IdempotencyConflict)
	}
	require.Equal(t, before, f.snapshot())
	require.Equal(t, "opening:acc 500", one[string](f, `SELECT external_ref || ' ' || amount_minor FROM funding`))
	f.createAccount(paymentapi.CreateAccountRequest{AccountID: "empty", Currency: "JPY"}).into(http.StatusCreated, &again)
	require.Equal(t, paymentapi.Account{AccountID: "empty", Kind: paymentapi.Customer, Currency: "JPY"}, again)
	require.Equal(t, paymentapi.Clearing, f.getAccount("clearing.JPY").Kind)
	f.sound()
}

func TestFundingIsAnsweredAndNotRepeated(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 100)
	f.account("other", 0)
	var first, again paymentapi.Funding
	f.fund("acc", paymentapi.FundingRequest{ExternalRef: "f-1", AmountMinor: 50}).into(http.StatusCreated, &first)
	require.EqualValues(t, 150, first.BalanceMinor)
	f.fund("acc", paymentapi.FundingRequest{ExternalRef: "f-2", AmountMinor: 1}).into(http.StatusCreated, &paymentapi.Funding{})
	before := f.snapshot()
	f.fund("acc", paymentapi.FundingRequest{ExternalRef: "f-1", AmountMinor: 50}).into(http.StatusCreated, &again)
	require.Equal(t, first, again, "also the balance is the one it left behind")
	f.fund("acc", paymentapi.FundingRequest{ExternalRef: "f-1", AmountMinor: 51}).refused(apierr.IdempotencyConflict)
	f.fund("other", paymentapi.FundingRequest{ExternalRef: "f-1", AmountMinor: 50}).refused(apierr.IdempotencyConflict)
	f.fund("nobody", paymentapi.FundingRequest{ExternalRef: "f-3", AmountMinor: 50}).refused(apierr.NotFound)
	f.fund("clearing.EUR", paymentapi.FundingRequest{ExternalRef: "f-3", AmountMinor: 50}).refused(apierr.NotFound)
	f.fund("acc", paymentapi.FundingRequest{ExternalRef: "f-3", AmountMinor: math.MaxInt64 - 150}).refused(apierr.ValidationFailed)
	require.Equal(t, before, f.snapshot())
	f.fund("acc", paymentapi.FundingRequest{ExternalRef: "f-4", AmountMinor: math.MaxInt64 - 151}).into(http.StatusCreated, &again)
	require.EqualValues(t, int64(math.MaxInt64), again.BalanceMinor)
	f.sound()
}

func TestConcurrentIntakeOfTheSameThings(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("one", 0)
	f.account("two", 0)
	var wg sync.WaitGroup
	payouts := make([]paymentapi.Payout, 12)
	for i := range payouts {
		wg.Go(func() {
			f.createAccount(paymentapi.CreateAccountRequest{AccountID: "same", Currency: "KWD", OpeningMinor: 7}).
				into(http.StatusCreated, &paymentapi.Account{})
			f.fund("one", paymentapi.FundingRequest{ExternalRef: "same", AmountMinor: 5}).into(http.StatusCreated, &paymentapi.Funding{})
			f.createPayout(order("same", "one", 3)).into(http.StatusCreated, &payouts[i])
			// One reference, two accounts: somebody wins, and the others are told.
			if r := f.fund([]string{"one", "two"}[i%2], paymentapi.FundingRequest{ExternalRef: "race", AmountMinor: 1}); r.status != http.StatusCreated {
				r.refused(apierr.IdempotencyConflict)
			}
		})
	}
	wg.Wait()
	for _, p := range payouts {
		require.Equal(t, payouts[0], p)
	}
	require.EqualValues(t, 7, f.getAccount("same").BalanceMinor)
	require.EqualValues(t, 6, f.getAccount("one").BalanceMinor+f.getAccount("two").BalanceMinor)
	require.Equal(t, 1, one[int](f, `SELECT count(*) FROM payout`))
	f.sound()
}

func TestPayoutIsCreatedOnce(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 100)
	f.createAccount(paymentapi.CreateAccountRequest{AccountID: "yen", Currency: "JPY"}).into(http.StatusCreated, &paymentapi.Account{})
	var first, again paymentapi.Payout
	f.createPayout(order("e-1", "acc", 10)).into(http.StatusCreated, &first)
	require.Equal(t, paymentapi.Pending, first.State)
	before := f.snapshot()
	f.createPayout(order("e-1", "acc", 10)).into(http.StatusCreated, &again)
	require.Equal(t, first, again)
	for name, change := range map[string]func(*paymentapi.CreatePayoutRequest){
		"amount":      func(r *paymentapi.CreatePayoutRequest) { r.AmountMinor++ },
		"beneficiary": func(r *paymentapi.CreatePayoutRequest) { r.BeneficiaryRef = "c" },
		"account":     func(r *paymentapi.CreatePayoutRequest) { r.AccountID, r.Currency = "yen", "JPY" },
	} {
		r := order("e-1", "acc", 10)
		change(&r)
		require.Equal(t, apierr.IdempotencyConflict, f.createPayout(r).err.Code, name)
	}
	for field, r := range map[string]paymentapi.CreatePayoutRequest{
		"accountId": order("e-2", "nobody", 1),
		"currency":  {ExternalRef: "e-2", AccountID: "acc", AmountMinor: 1, Currency: "USD", BeneficiaryRef: "b"},
	} {
		require.Contains(t, f.createPayout(r).refused(apierr.ValidationFailed).err.Details["fields"], field)
	}
	f.createPayout(order("e-2", "clearing.EUR", 1)).refused(apierr.ValidationFailed)
	require.Equal(t, before, f.snapshot())

	require.Equal(t, first.PayoutID, f.claimed(first, 1).IdempotencyKey)
	f.createPayout(order("e-1", "acc", 10)).into(http.StatusCreated, &again)
	require.Equal(t, first.PayoutID, again.PayoutID)
	require.Equal(t, paymentapi.Claimed, again.State, "a repeat shows the payout as it now is")
}

func TestBatchIsAllOrNone(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 100)
	f.account("other", 100)
	var made paymentapi.CreatePayoutsResponse
	f.batch(order("e-1", "acc", 1), order("e-2", "other", 2), order("e-3", "acc", 3)).into(http.StatusCreated, &made)
	require.Equal(t, 3, made.Created)
	for i, p := range made.Payouts {
		require.Equal(t, fmt.Sprintf("e-%d", i+1), p.ExternalRef)
	}
	var page paymentapi.PayoutPage
	f.do(call{as: "reader", method: http.MethodGet, path: "/v1/payouts"}).into(http.StatusOK, &page)
	require.Equal(t, made.Payouts, page.Payouts, "the order of the request is the order of age")

	var again paymentapi.CreatePayoutsResponse
	f.batch(order("e-4", "acc", 4), order("e-2", "other", 2)).into(http.StatusCreated, &again)
	require.Equal(t, 1, again.Created)
	require.Equal(t, made.Payouts[1], again.Payouts[1])

	before := f.snapshot()
	r := f.batch(order("e-5", "acc", 1), order("e-2", "other", 3), order("e-6", "acc", 1), order("e-1", "other", 1)).refused(apierr.IdempotencyConflict)
	require.Equal(t, map[string]any{"payouts[1].externalRef": "used for a payout with another body",
		"payouts[3].externalRef": "used for a payout with another body"}, r.err.Details["fields"])
	r = f.batch(order("e-5", "nobody", 1), order("e-6", "acc", 1), paymentapi.CreatePayoutRequest{ExternalRef: "e-7", AccountID: "acc",
		AmountMinor: 1, Currency: "USD", BeneficiaryRef: "b"}).refused(apierr.ValidationFailed)
	require.Equal(t, map[string]any{"payouts[0].accountId": "no such customer's account", "payouts[2].currency": "not the account's currency"},
		r.err.Details["fields"])
	r = f.batch(order("e-5", "acc", 0), order("", "acc", 1), order("e-5", "a:b", 1)).refused(apierr.ValidationFailed)
	fields := r.err.Details["fields"]
	require.Contains(t, fields, "payouts[0].amountMinor")
	require.Contains(t, fields, "payouts[1].externalRef")
	require.Contains(t, fields, "payouts[2].externalRef", "twice in one batch")
	require.Contains(t, fields, "payouts[2].accountId")
	require.Equal(t, before, f.snapshot())
}

func TestBatchAtItsBounds(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 100)
	requests := make([]paymentapi.CreatePayoutRequest, paymentapi.MaxBatch)
	for i := range requests {
		requests[i] = order(fmt.Sprintf("%s-%04d", strings.Repeat("e", 120), i), "acc", 1)
		requests[i].BeneficiaryRef = strings.Repeat("b", 256)
	}
	var made paymentapi.CreatePayoutsResponse
	f.batch(requests...).into(http.StatusCreated, &made)
	require.Equal(t, paymentapi.MaxBatch, made.Created)
	require.Equal(t, paymentapi.MaxBatch, one[int](f, `SELECT count(*) FROM payout_transition WHERE from_state IS NULL`))
	f.batch(append(requests, order("one-more", "acc", 1))...).refused(apierr.ValidationFailed)
	f.batch().refused(apierr.ValidationFailed)
	require.Equal(t, paymentapi.MaxBatch, one[int](f, `SELECT count(*) FROM payout`))
}

// The same references in another order wait for each other; the server ends that at one's expense, who must not notice.
func TestBatchThatLosesADeadlock(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	ctx := context.Background()
	tx, err := f.owner.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	insert := func(ref string) {
		_, err := tx.Exec(ctx, `INSERT INTO payout (payout_id, idempotency_key, external_ref, account_id, amount_minor, currency, beneficiary_ref)
			VALUES (gen_random_uuid(), $1, $1, 'acc', 1, 'EUR', 'b')`, ref)
		require.NoError(t, err)
	}
	_, err = tx.Exec(ctx, `SET LOCAL deadlock_timeout = '1min'`) // the service is the one that finds it
	require.NoError(t, err)
	insert("second")
	answered := make(chan error, 1)
	go func() {
		_, err := f.typed("intake").CreatePayouts(ctx, "test", paymentapi.CreatePayoutsRequest{Payouts: []paymentapi.CreatePayoutRequest{
			{ExternalRef: "first", AccountID: "acc", AmountMinor: 1, Currency: "EUR", BeneficiaryRef: "b"},
			{ExternalRef: "second", AccountID: "acc", AmountMinor: 1, Currency: "EUR", BeneficiaryRef: "b"}}})
		answered <- err
	}()
	require.Eventually(t, func() bool {
		return one[bool](f, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND usename = 'payapp' AND wait_event_type = 'Lock')`)
	}, eventually, eventuallyEvery)
	insert("first") // waits until the service has given way
	require.NoError(t, tx.Rollback(ctx))
	require.NoError(t, <-answered)
	require.Equal(t, 2, one[int](f, `SELECT count(*) FROM payout`))
}
