package paymentresource

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/query"
)

func (f *fixture) list(query string) paymentapi.PayoutPage {
	f.t.Helper()
	var page paymentapi.PayoutPage
	f.do(call{as: "reader", method: http.MethodGet, path: "/v1/payouts?" + query}).into(http.StatusOK, &page)
	return page
}

// walk reads all pages of a list and returns the external references.
func (f *fixture) walk(query string) []string {
	f.t.Helper()
	var refs []string
	cursor := ""
	for {
		page := f.list(query + "&cursor=" + url.QueryEscape(cursor))
		for _, p := range page.Payouts {
			refs = append(refs, p.ExternalRef)
		}
		if cursor = page.NextCursor; cursor == "" {
			return refs
		}
	}
}

func TestListInPagesOldestFirst(t *testing.T) {
	t.Parallel()
	f := start(t)
	var all, ofB []string
	var orders []paymentapi.CreatePayoutRequest
	for _, account := range []string{"b", "a", "c"} {
		f.account(account, 1000)
	}
	for i := range 23 {
		account := []string{"b", "a", "b", "c"}[i%4]
		ref := fmt.Sprintf("e-%02d", i)
		orders = append(orders, order(ref, account, 1))
		all = append(all, ref)
		if account == "b" {
			ofB = append(ofB, ref)
		}
	}
	f.batch(orders...).into(http.StatusCreated, &paymentapi.CreatePayoutsResponse{})
	byRef := make(map[string]paymentapi.Payout)
	for _, p := range f.list("limit=500").Payouts {
		byRef[p.ExternalRef] = p
	}
	f.claimed(byRef["e-00"], 1)
	f.claimed(byRef["e-02"], 2)

	for _, limit := range []string{"1", "2", "5", "22", "23", "24", "500"} {
		require.Equal(t, all, f.walk("limit="+limit), limit)
		require.Equal(t, ofB, f.walk("accountId=b&limit="+limit))
		require.Equal(t, []string{"e-00", "e-02"}, f.walk("state=CLAIMED&limit="+limit))
		require.Equal(t, ofB[2:], f.walk("state=PENDING&accountId=b&limit="+limit))
		require.Equal(t, []string{"e-00", "e-01", "e-03"}, f.walk("onePerAccount=true&limit="+limit))
		require.Equal(t, []string{"e-01", "e-03", "e-04"}, f.walk("onePerAccount=true&state=PENDING&limit="+limit))
		require.Equal(t, []string{"e-04"}, f.walk("onePerAccount=true&state=PENDING&accountId=b&limit="+limit))
	}
	require.Empty(t, f.walk("state=POSTED&limit=5"))
	require.NotNil(t, f.list("state=POSTED").Payouts)
	require.Len(t, f.list("onePerAccount=false").Payouts, 23)
	require.Empty(t, f.list("accountId=nobody").Payouts)
}

func TestListRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	f := start(t)
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=501": "limit", "limit=-1": "limit", "limit=x": "limit", "limit=": "limit", "limit=1&limit=2": "limit",
		"limit=99999999999999999999": "limit",
		"state=pending":              "state", "state=": "state", "state=GONE": "state",
		"accountId=": "accountId", "accountId=a:b": "accountId", "accountId=%00": "accountId", "accountId=" + strings.Repeat("a", 65): "accountId",
		"onePerAccount=1": "onePerAccount", "onePerAccount=": "onePerAccount",
		"cursor=x": "cursor", "cursor=AAAA": "cursor", "cursor=%21": "cursor", "cursor=__________________________________________8": "cursor",
		"stat=PENDING": "stat", "offset=3": "offset",
	} {
		r := f.do(call{as: "reader", method: http.MethodGet, path: "/v1/payouts?" + query})
		require.Equal(t, apierr.ValidationFailed, r.err.Code, "%s: %s", query, r.body)
		require.Contains(t, r.err.Details["fields"], field, query)
	}
}

// The cost of a page does not depend on how many payouts there are: every form of the list walks an index.
func TestListWalksAnIndex(t *testing.T) {
	t.Parallel()
	f := start(t)
	ctx := context.Background()
	f.account("seed", 1)
	// Rows in bulk, most of them final, without the triggers that would make this slow.
	err := pgx.BeginFunc(ctx, f.owner, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			SET LOCAL session_replication_role = replica;
			INSERT INTO account (account_id, kind, currency) SELECT 'bulk-' || n, 'CUSTOMER', 'EUR' FROM generate_series(0, 199) n;
			INSERT INTO payout (payout_id, account_id, amount_minor, currency, beneficiary_ref, state, claim_token, rail_reference, idempotency_key, external_ref, created_at)
			SELECT gen_random_uuid(), 'bulk-' || n % 200, 1, 'EUR', 'b', CASE WHEN n % 50 = 0 THEN 'PENDING' ELSE 'POSTED' END, 1, 'r', 'k' || n, 'e' || n,
			       now() - interval '1 day' + n * interval '1 ms'
			  FROM generate_series(1, 40000) n;`)
		return err
	})
	require.NoError(t, err)
	_, err = f.owner.Exec(ctx, `ANALYZE payout`)
	require.NoError(t, err)

	cursor := f.list("limit=1").NextCursor
	for _, c := range []struct {
		list  paymentapi.ListPayoutsRequest
		index string
	}{
		{paymentapi.ListPayoutsRequest{Limit: 100}, "payout_by_age"},
		{paymentapi.ListPayoutsRequest{Limit: 100, Cursor: cursor}, "payout_by_age"},
		{paymentapi.ListPayoutsRequest{Limit: 500, State: paymentapi.Pending}, "payout_by_state"},
		{paymentapi.ListPayoutsRequest{Limit: 100, State: paymentapi.Pending, Cursor: cursor}, "payout_by_state"},
		{paymentapi.ListPayoutsRequest{Limit: 100, AccountID: "bulk-7"}, "payout_by_account"},
		{paymentapi.ListPayoutsRequest{Limit: 100, AccountID: "bulk-7", State: paymentapi.Pending}, "payout_by_state_and_account"},
		{paymentapi.ListPayoutsRequest{Limit: 100, OnePerAccount: true}, "payout_by_account"},
		{paymentapi.ListPayoutsRequest{Limit: 500, OnePerAccount: true, State: paymentapi.Pending}, "payout_by_state_and_account"},
		{paymentapi.ListPayoutsRequest{Limit: 1, OnePerAccount: true, AccountID: "bulk-7", State: paymentapi.Pending}, "payout_by_state_and_account"},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := f.explain(mode, c.list)
			require.Contains(t, plan, "using "+c.index+" ", "%s %+v\n%s", mode, c.list, plan)
			require.NotContains(t, plan, "Seq Scan", "%s %+v\n%s", mode, c.list, plan)
		}
	}
	require.Len(t, f.list("onePerAccount=true&limit=500").Payouts, 200)
}

// explain is the plan of a list, prepared as the service prepares it.
func (f *fixture) explain(mode string, r paymentapi.ListPayoutsRequest) string {
	f.t.Helper()
	sql, args, err := query.Statement(r)
	require.NoError(f.t, err)
	literals := make([]string, 0, len(args))
	for _, arg := range args {
		if at, ok := arg.(time.Time); ok {
			arg = at.Format(time.RFC3339Nano)
		}
		literals = append(literals, "'"+fmt.Sprint(arg)+"'")
	}
	ctx := context.Background()
	var plan []string
	err = pgx.BeginFunc(ctx, f.owner, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = "+mode+"; PREPARE list AS "+sql); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "EXPLAIN EXECUTE list ("+strings.Join(literals, ", ")+")", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		if plan, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DEALLOCATE list")
		return err
	})
	require.NoError(f.t, err)
	return strings.Join(plan, "\n")
}
