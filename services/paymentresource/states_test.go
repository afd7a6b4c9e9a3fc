package paymentresource

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/postgres"
)

// trail is the audit of a payout as from→to pairs, "" being the creation's origin.
func (f *fixture) trail(p paymentapi.Payout) []string {
	f.t.Helper()
	var pairs []string
	for _, tr := range f.getPayout(p.PayoutID).Transitions {
		pairs = append(pairs, string(tr.FromState)+">"+string(tr.ToState))
	}
	return pairs
}

// Each row of the state machine, driven through the API, with what it does to the reservation.
func TestEveryRowOfTheStateMachine(t *testing.T) {
	t.Parallel()
	f := start(t)
	settled := paymentapi.ResolutionRequest{Outcome: "SETTLED", RailReference: "found-1", Evidence: []byte(`{"row":"ACKED"}`), Reason: "found"}
	absent := paymentapi.ResolutionRequest{Outcome: "ABSENT", Evidence: []byte(`{"row":null}`), Reason: "not found"}
	abandoned := paymentapi.ResolutionRequest{Outcome: "ABANDONED", Reason: "the customer was paid by hand"}
	for name, row := range map[string]struct {
		amount   int64
		drive    func(f *fixture, p paymentapi.Payout)
		trail    []string
		reserved int64
		balance  int64
	}{
		"funds short": {amount: 1001, balance: 1000,
			drive: func(f *fixture, p paymentapi.Payout) { f.claim(p, 1).refused(apierr.InsufficientFunds) },
			trail: []string{">PENDING", "PENDING>FAILED"}},
		"cancelled": {amount: 10, balance: 1000,
			drive: func(f *fixture, p paymentapi.Payout) { require.Equal(t, 200, f.cancel(p, "typing error").status) },
			trail: []string{">PENDING", "PENDING>ABANDONED"}},
		"claimed": {amount: 10, balance: 1000, reserved: 10,
			drive: func(f *fixture, p paymentapi.Payout) { f.claimed(p, 1) },
			trail: []string{">PENDING", "PENDING>CLAIMED"}},
		"recovered while claimed": {amount: 10, balance: 1000, reserved: 10,
			drive: func(f *fixture, p paymentapi.Payout) {
				f.claimed(p, 1)
				c := f.claimed(p, 2)
				require.Equal(t, paymentapi.Claimed, c.PreviousState)
				require.Equal(t, paymentapi.Claimed, c.State)
				require.Equal(t, 2, c.AttemptCount)
			},
			trail: []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>CLAIMED"}},
		"declined": {amount: 10, balance: 1000,
			drive: func(f *fixture, p paymentapi.Payout) {
				f.claimed(p, 1)
				require.Equal(t, 200, f.outcome(p, 1, "REJECTED").status)
			},
			trail: []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>FAILED"}},
		"unknown": {amount: 10, balance: 1000, reserved: 10,
			drive: func(f *fixture, p paymentapi.Payout) {
				f.claimed(p, 1)
				require.Equal(t, 200, f.outcome(p, 1, "TIMEOUT").status)
			},
			trail: []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>RAIL_AMBIGUOUS"}},
		"posted": {amount: 10, balance: 990,
			drive: func(f *fixture, p paymentapi.Payout) {
				f.claimed(p, 1)
				require.Equal(t, 200, f.post(p, 1, acknowledgement("r")).status)
			},
			trail: []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>RAIL_ACKED", "RAIL_ACKED>POSTED"}},
		"settled, recovered and posted": {amount: 10, balance: 990,
			drive: func(f *fixture, p paymentapi.Payout) {
				f.claimed(p, 1)
				f.outcome(p, 1, "TIMEOUT")
				require.Equal(t, 200, f.resolve("resolver", p, 2, settled).status)
				require.EqualValues(t, 10, f.getAccount(p.AccountID).ReservedMinor)
				c := f.claimed(p, 3)
				require.Equal(t, paymentapi.RailAcked, c.PreviousState)
				require.Equal(t, paymentapi.RailAcked, c.State)
				var posting paymentapi.Posting
				f.post(p, 3, nil).into(http.StatusOK, &posting)
				require.Equal(t, "found-1", posting.RailReference)
			},
			trail: []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>RAIL_AMBIGUOUS",
				"RAIL_AMBIGUOUS>RAIL_ACKED", "RAIL_ACKED>RAIL_ACKED", "RAIL_ACKED>POSTED"}},
		"absent": {amount: 10, balance: 1000,
			drive: func(f *fixture, p paymentapi.Payout) {
				f.claimed(p, 1)
				f.outcome(p, 1, "TIMEOUT")
				require.Equal(t, 200, f.resolve("resolver", p, 2, absent).status)
			},
			trail: []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>RAIL_AMBIGUOUS", "RAIL_AMBIGUOUS>FAILED"}},
		"abandoned": {amount: 10, balance: 1000,
			drive: func(f *fixture, p paymentapi.Payout) {
				f.claimed(p, 1)
				f.outcome(p, 1, "TIMEOUT")
				require.Equal(t, 200, f.resolve("alice", p, 2, abandoned).status)
			},
			trail: []string{">PENDING", "PENDING>CLAIMED", "CLAIMED>RAIL_SUBMITTED", "RAIL_SUBMITTED>RAIL_AMBIGUOUS", "RAIL_AMBIGUOUS>ABANDONED"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, account := f.on(t), strings.NewReplacer(" ", "-", ",", "").Replace(name)
			f.account(account, 1000)
			p := f.payout(account, row.amount)
			row.drive(f, p)
			require.Equal(t, row.trail, f.trail(p))
			a := f.getAccount(account)
			require.Equal(t, row.reserved, a.ReservedMinor)
			require.Equal(t, row.balance, a.BalanceMinor)
		})
	}
	f.sound()
	f.fencedOut(0, 0)
}

// What each operation answers in each state that does not take it, and that nothing is written then.
func TestStatesRefuseWhatIsNotInTheTable(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1_000_000)
	token := int64(0)
	next := func() int64 { token++; return token }
	reach := map[paymentapi.PayoutState]func() (paymentapi.Payout, int64){
		paymentapi.Pending: func() (paymentapi.Payout, int64) { return f.payout("acc", 10), next() },
		paymentapi.Claimed: func() (paymentapi.Payout, int64) {
			p, n := f.payout("acc", 10), next()
			f.claimed(p, n)
			return p, n
		},
		paymentapi.RailAmbiguous: func() (paymentapi.Payout, int64) {
			p, n := f.payout("acc", 10), next()
			f.claimed(p, n)
			f.outcome(p, n, "TIMEOUT")
			return p, n
		},
		paymentapi.RailAcked: func() (paymentapi.Payout, int64) {
			p, n := f.payout("acc", 10), next()
			f.claimed(p, n)
			f.outcome(p, n, "TIMEOUT")
			f.resolve("resolver", p, n, paymentapi.ResolutionRequest{Outcome: "SETTLED", RailReference: "x", Evidence: []byte(`{"a":1}`), Reason: "r"})
			return p, n
		},
		paymentapi.Posted: func() (paymentapi.Payout, int64) {
			p, n := f.payout("acc", 10), next()
			f.claimed(p, n)
			f.post(p, n, acknowledgement("r"))
			return p, n
		},
		paymentapi.Failed: func() (paymentapi.Payout, int64) {
			p, n := f.payout("acc", 10), next()
			f.claimed(p, n)
			f.outcome(p, n, "REJECTED")
			return p, n
		},
		paymentapi.Abandoned: func() (paymentapi.Payout, int64) {
			p := f.payout("acc", 10)
			f.cancel(p, "not wanted")
			return p, next()
		},
	}
	absent := paymentapi.ResolutionRequest{Outcome: "ABSENT", Evidence: []byte(`{"a":1}`), Reason: "r"}
	operations := map[string]func(f *fixture, p paymentapi.Payout, token int64) reply{
		"claim":    func(f *fixture, p paymentapi.Payout, n int64) reply { return f.claim(p, n) },
		"post":     func(f *fixture, p paymentapi.Payout, n int64) reply { return f.post(p, n, acknowledgement("r")) },
		"rejected": func(f *fixture, p paymentapi.Payout, n int64) reply { return f.outcome(p, n, "REJECTED") },
		"timeout":  func(f *fixture, p paymentapi.Payout, n int64) reply { return f.outcome(p, n, "TIMEOUT") },
		"abandon":  func(f *fixture, p paymentapi.Payout, n int64) reply { return f.abandon(p, n) },
		"resolve":  func(f *fixture, p paymentapi.Payout, n int64) reply { return f.resolve("resolver", p, n, absent) },
		"cancel":   func(f *fixture, p paymentapi.Payout, n int64) reply { return f.cancel(p, "too late") },
	}
	// The operations that a state takes under a token newer than all: everything else is refused.
	takes := map[string][]paymentapi.PayoutState{
		"claim":   {paymentapi.Pending, paymentapi.Claimed, paymentapi.RailAcked},
		"resolve": {paymentapi.RailAmbiguous},
		"cancel":  {paymentapi.Pending},
	}
	for state, get := range reach {
		for name, operate := range operations {
			allowed := false
			for _, s := range takes[name] {
				allowed = allowed || s == state
			}
			if allowed {
				continue
			}
			t.Run(string(state)+" "+name, func(t *testing.T) {
				f := f.on(t)
				p, _ := get()
				require.Equal(t, state, f.getPayout(p.PayoutID).State)
				before := f.snapshot()
				operate(f, p, next()).refused(apierr.PayoutNotClaimable).detail("state", string(state))
				require.Equal(t, before, f.snapshot())
			})
		}
	}
	f.sound()
	f.fencedOut(0, 0)
}

// The table in the code and the trigger in the database are the same table, for all pairs of states.
func TestTriggerHoldsTheSameTableAsTheCode(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	ctx := context.Background()
	legal := make(map[[2]paymentapi.PayoutState]bool)
	for _, move := range payout.Table {
		legal[[2]paymentapi.PayoutState{move.From, move.To}] = true
	}
	for _, from := range paymentapi.States {
		for _, to := range paymentapi.States {
			tx, err := f.owner.Begin(ctx)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, `SET LOCAL session_replication_role = replica`)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, `UPDATE payout SET state = $2, claim_token = 1, rail_reference = 'r' WHERE payout_id = $1`, p.PayoutID, from)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, `SET LOCAL session_replication_role = origin`)
			require.NoError(t, err)
			if outcome := map[paymentapi.PayoutState]string{paymentapi.RailAcked: "SETTLED", paymentapi.Failed: "ABSENT",
				paymentapi.Abandoned: "ABANDONED"}[to]; outcome != "" && from == paymentapi.RailAmbiguous {
				_, err = tx.Exec(ctx, `INSERT INTO payout_resolution (payout_id, outcome, rail_reference, evidence, token, decided_by, reason)
					VALUES ($1, $2, CASE $2 WHEN 'SETTLED' THEN 'r' END, '{}', 2, 'alice', 'r')`, p.PayoutID, outcome)
				require.NoError(t, err)
			}
			_, err = tx.Exec(ctx, `UPDATE payout SET state = $2, claim_token = 2 WHERE payout_id = $1`, p.PayoutID, to)
			if legal[[2]paymentapi.PayoutState{from, to}] {
				require.NoError(t, err, "%s to %s", from, to)
			} else {
				code, _ := postgres.SQLState(err)
				require.Equal(t, "23001", code, "%s to %s", from, to)
			}
			require.NoError(t, tx.Rollback(ctx))
		}
	}
}

// What the code would have to be wrong to try, and the database refuses anyway.
func TestTriggersRefuse(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	f.account("other", 1000)
	posted := f.payout("acc", 10)
	f.claimed(posted, 1)
	f.post(posted, 1, acknowledgement("r"))
	ambiguous := f.payout("acc", 10)
	f.claimed(ambiguous, 2)
	f.outcome(ambiguous, 2, "TIMEOUT")
	claimed := f.payout("acc", 10)
	f.claimed(claimed, 3)
	pending := f.payout("acc", 10)
	for name, c := range map[string]struct {
		sql  string
		args []any
	}{
		"an ambiguous payout leaves without a resolution": {`UPDATE payout SET state = 'FAILED' WHERE payout_id = $1`, []any{ambiguous.PayoutID}},
		"a posted payout moves":                           {`UPDATE payout SET state = 'FAILED' WHERE payout_id = $1`, []any{posted.PayoutID}},
		"a payout is deleted":                             {`DELETE FROM payout WHERE payout_id = $1`, []any{pending.PayoutID}},
		"payouts are truncated":                           {`TRUNCATE payout CASCADE`, nil},
		"an amount changes":                               {`UPDATE payout SET amount_minor = 11, state = 'ABANDONED' WHERE payout_id = $1`, []any{pending.PayoutID}},
		"an account changes":                              {`UPDATE payout SET account_id = 'other', state = 'ABANDONED' WHERE payout_id = $1`, []any{pending.PayoutID}},
		"an idempotency key changes":                      {`UPDATE payout SET idempotency_key = 'x', state = 'ABANDONED' WHERE payout_id = $1`, []any{pending.PayoutID}},
		"a claim stays under the same token":              {`UPDATE payout SET updated_at = now() WHERE payout_id = $1`, []any{claimed.PayoutID}},
		"a move leaves no audit row":                      {`UPDATE payout SET state = 'ABANDONED' WHERE payout_id = $1`, []any{pending.PayoutID}},
		"a payout is born claimed": {`INSERT INTO payout (payout_id, account_id, amount_minor, currency, beneficiary_ref, state, claim_token,
			idempotency_key, external_ref) VALUES (gen_random_uuid(), 'acc', 1, 'EUR', 'b', 'CLAIMED', 9, 'k', 'e')`, nil},
		"a ledger entry changes":       {`UPDATE ledger_entry SET amount_minor = 1`, nil},
		"a ledger entry goes":          {`DELETE FROM ledger_entry`, nil},
		"the ledger is truncated":      {`TRUNCATE ledger_entry`, nil},
		"an audit row changes":         {`UPDATE payout_transition SET reason = ''`, nil},
		"an audit row goes":            {`DELETE FROM payout_transition`, nil},
		"a funding changes":            {`UPDATE funding SET amount_minor = 1`, nil},
		"an ended claim opens again":   {`UPDATE payout_claim SET ended_at = NULL, end_reason = NULL WHERE payout_id = $1`, []any{posted.PayoutID}},
		"a claim goes":                 {`DELETE FROM payout_claim`, nil},
		"one leg alone":                {`INSERT INTO ledger_entry (entry_group, account_id, direction, amount_minor, fence) VALUES (gen_random_uuid(), 'acc', 'DEBIT', 1, 1)`, nil},
		"legs of unequal amounts":      {`INSERT INTO ledger_entry (entry_group, account_id, direction, amount_minor, fence) SELECT '7d444840-9dc0-11d1-b245-5ffdce74fad2'::uuid, a, d, n, 1 FROM (VALUES ('acc', 'DEBIT', 1), ('clearing.EUR', 'CREDIT', 2)) v (a, d, n)`, nil},
		"a leg of no account":          {`INSERT INTO ledger_entry (entry_group, account_id, direction, amount_minor, fence) SELECT '7d444840-9dc0-11d1-b245-5ffdce74fad2'::uuid, a, d, 1, 1 FROM (VALUES ('acc', 'DEBIT'), ('nobody', 'CREDIT')) v (a, d)`, nil},
		"a second guarded posting":     {`INSERT INTO ledger_entry (entry_group, payout_id, account_id, direction, amount_minor, fence) SELECT gen_random_uuid(), payout_id, account_id, direction, amount_minor, 99 FROM ledger_entry WHERE payout_id = $1`, []any{posted.PayoutID}},
		"reserved above the balance":   {`UPDATE account SET reserved_minor = balance_minor + 1 WHERE account_id = 'acc'`, nil},
		"a negative balance":           {`UPDATE account SET balance_minor = -1, reserved_minor = 0 WHERE account_id = 'acc'`, nil},
		"a negative fence":             {`UPDATE account SET fence = -1 WHERE account_id = 'acc'`, nil},
		"a clearing account's balance": {`UPDATE account SET balance_minor = 1 WHERE account_id = 'clearing.EUR'`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.on(t)
			before := f.snapshot()
			ctx := context.Background()
			err := pgx.BeginFunc(ctx, f.owner, func(tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, c.sql, c.args...)
				if err == nil && tag.RowsAffected() == 0 {
					return nil // touched nothing: the test itself is wrong, and the check below says so
				}
				return err
			})
			code, _ := postgres.SQLState(err)
			require.Contains(t, []string{"23001", "23514", "23505"}, code, "%v", err)
			require.Equal(t, before, f.snapshot())
		})
	}
}
