package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/harness/invariants"
	"railguard/services/paymentapi"
	"railguard/services/stubapi"
)

// Evidence is everything that was recorded about one payout, by anybody.
type Evidence struct {
	State        string
	AttemptCount int
	ClaimToken   int64
	Account      paymentapi.Account
	Transitions  []string     // "FROM>TO", oldest first; the creation is ">PENDING"
	Claims       []ClaimRow   // oldest first
	Submissions  []Submission // of the proxy, oldest first
	Entries      []Entry      // of the ledger, oldest first
	Requests     []stubapi.Request
}

// ClaimRow is one row of payout_claim.
type ClaimRow struct {
	Token   int64
	Outcome string
	Open    bool
}

// Submission is one row of rail_submission; Outcome is "" while there is none.
type Submission struct {
	Token   int64
	Outcome string
	Guarded bool
}

// Entry is one row of ledger_entry.
type Entry struct {
	AccountID   string
	Direction   string
	AmountMinor int64
	Fence       int64
}

// Evidence reads what was recorded about a payout.
func (c *Cluster) Evidence(t testing.TB, payoutID string) Evidence {
	t.Helper()
	ctx := t.Context()
	var e Evidence
	var accountID string
	require.NoError(t, c.Paydb.QueryRow(ctx, `SELECT state, attempt_count, coalesce(claim_token, 0), account_id FROM payout WHERE payout_id = $1`, payoutID).
		Scan(&e.State, &e.AttemptCount, &e.ClaimToken, &accountID))
	account, err := c.Intake.GetAccount(ctx, accountID)
	require.NoError(t, err)
	e.Account = *account
	e.Transitions = rows(t, c, `SELECT coalesce(from_state, '') || '>' || to_state FROM payout_transition WHERE payout_id = $1 ORDER BY id`, payoutID, pgx.RowTo[string])
	e.Claims = rows(t, c, `SELECT token, outcome, ended_at IS NULL FROM payout_claim WHERE payout_id = $1 ORDER BY claimed_at, token`, payoutID, pgx.RowToStructByPos[ClaimRow])
	e.Submissions = rows(t, c, `SELECT presented_token, coalesce(outcome, ''), guarded FROM rail_submission WHERE payout_id = $1 ORDER BY submitted_at`, payoutID, pgx.RowToStructByPos[Submission])
	e.Entries = rows(t, c, `SELECT account_id, direction, amount_minor, fence FROM ledger_entry WHERE payout_id = $1 ORDER BY id`, payoutID, pgx.RowToStructByPos[Entry])
	requests, err := c.Stub.Requests(ctx, payoutID)
	require.NoError(t, err)
	e.Requests = requests.Requests
	return e
}

func rows[T any](t testing.TB, c *Cluster, sql, payoutID string, scan pgx.RowToFunc[T]) []T {
	t.Helper()
	result, err := c.Paydb.Query(t.Context(), sql, payoutID)
	require.NoError(t, err)
	list, err := pgx.CollectRows(result, scan)
	require.NoError(t, err)
	return list
}

// Presented counts the submissions that were, or may have been, presented to the rail (INV-02).
func (e Evidence) Presented() int {
	n := 0
	for _, s := range e.Submissions {
		if s.Outcome != "FENCED" && s.Outcome != "UNSENT" {
			n++
		}
	}
	return n
}

// LockIsFree reports whether the account's lock is free.
func (c *Cluster) LockIsFree(t testing.TB, accountID string) bool {
	t.Helper()
	lock, err := c.Lock.Get(t.Context(), "payout:"+accountID)
	require.NoError(t, err)
	return !lock.Held
}

// CheckInvariants returns an error that shows every finding of the invariant checker over the whole system.
func (c *Cluster) CheckInvariants(ctx context.Context) error {
	requests, err := c.Stub.Requests(ctx, "")
	if err != nil {
		return err
	}
	report, err := invariants.Check(ctx, c.Paydb, requests.Requests)
	if err != nil {
		return err
	}
	var all []error
	for _, finding := range report.Findings {
		all = append(all, fmt.Errorf("%+v", finding))
	}
	return errors.Join(all...)
}
