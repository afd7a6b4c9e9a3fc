package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/harness/fencing/evidence"
)

// queryer is a pool or a transaction on paydb.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

var _ queryer = (*pgxpool.Pool)(nil)

// books reads balance, sum, fences and state in one statement: one moment.
func (t *attempt) books(ctx context.Context, q queryer) (evidence.Books, error) {
	return one[evidence.Books](ctx, q, `SELECT a.balance_minor, a.reserved_minor,
			coalesce((SELECT sum(CASE e.direction WHEN 'CREDIT' THEN e.amount_minor ELSE -e.amount_minor END)
			            FROM ledger_entry e WHERE e.account_id = a.account_id), 0)::bigint AS sum_minor,
			a.fence, coalesce((SELECT w.highest_token FROM rail_high_water w WHERE w.account_id = a.account_id), 0) AS rail_highest, p.state AS payout_state
		FROM account a JOIN payout p ON p.account_id = a.account_id WHERE p.payout_id = $1`, t.facts.PayoutID)
}

func (t *attempt) submissions(ctx context.Context, q queryer) ([]evidence.Submission, error) {
	return all[evidence.Submission](ctx, q, `SELECT submission_id::text, presented_token, coalesce(outcome, ''), coalesce(rail_reference, ''), guarded, submitted_at, resolved_at
		FROM rail_submission WHERE payout_id = $1 ORDER BY submitted_at`, t.facts.PayoutID)
}

// collect reads everything that was recorded about the payout.
func (t *attempt) collect(ctx context.Context) error {
	for _, w := range append([]*evidence.Worker{&t.facts.A, &t.facts.B}, pointers(t.facts.C)...) {
		if w.RunID == "" {
			continue
		}
		var err error
		if w.Steps, w.Token, err = readHistory(ctx, t.temporal, w.WorkflowID, w.RunID); err != nil {
			return err
		}
		if w.StartedAt, w.EndedAt, err = runTimes(ctx, t.temporal, w.WorkflowID, w.RunID); err != nil {
			return err
		}
	}
	if err := t.collectRows(ctx); err != nil {
		return err
	}
	log, err := t.stub.Requests(ctx, t.facts.PayoutID)
	if err != nil {
		return err
	}
	t.facts.StubStartedAfter = log.StartedAt
	for _, r := range log.Requests {
		t.facts.Requests = append(t.facts.Requests, evidence.Request{Sequence: r.Sequence, ClientRef: r.ClientRef, AmountMinor: r.AmountMinor,
			Currency: string(r.Currency), Fault: string(r.Fault), ReceivedAt: r.ReceivedAt, MoneyMoved: r.MoneyMoved})
	}
	return t.collectEvents()
}

// collectRows reads paydb as it is at one moment.
func (t *attempt) collectRows(ctx context.Context) error {
	return pgx.BeginTxFunc(ctx, t.paydb, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if t.facts.After, err = t.books(ctx, tx); err != nil {
			return err
		}
		if t.facts.Submissions, err = t.submissions(ctx, tx); err != nil {
			return err
		}
		if t.facts.Claims, err = all[evidence.Claim](ctx, tx, `SELECT token, outcome, claimed_at, ended_at, coalesce(end_reason, '')
			FROM payout_claim WHERE payout_id = $1 ORDER BY claimed_at`, t.facts.PayoutID); err != nil {
			return err
		}
		if t.facts.Funding, err = all[evidence.Entry](ctx, tx, `SELECT id, entry_group::text, account_id, direction, amount_minor, fence, guarded, created_at
			FROM ledger_entry WHERE payout_id IS NULL AND account_id = $1 ORDER BY id`, t.facts.AccountID); err != nil {
			return err
		}
		t.facts.Ledger, err = all[evidence.Entry](ctx, tx, `SELECT id, entry_group::text, account_id, direction, amount_minor, fence, guarded, created_at
			FROM ledger_entry WHERE payout_id = $1 ORDER BY id`, t.facts.PayoutID)
		return err
	})
}

// collectEvents reads the guards' own events of this account.
func (t *attempt) collectEvents() error {
	var mine []event
	for _, log := range []*logFile{t.accountGuardLog, t.railGuardLog} {
		events, err := log.events("fenced_out", "duplicate_rail_submission_attempted", "rail_ambiguous")
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.ResourceID == t.facts.AccountID || e.AccountID == t.facts.AccountID {
				mine = append(mine, e)
			}
		}
	}
	for _, e := range mine {
		switch e.Event {
		case "fenced_out":
			t.facts.Refusals = append(t.facts.Refusals, evidence.Refusal{At: e.Time, Resource: e.Resource, Presented: e.PresentedToken, Highest: e.HighestToken})
		case "duplicate_rail_submission_attempted":
			t.facts.Duplicates = append(t.facts.Duplicates, evidence.Duplicate{At: e.Time, Presented: e.PresentedToken})
		}
	}
	return t.writeEvents(mine)
}

func all[T any](ctx context.Context, q queryer, sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

func one[T any](ctx context.Context, q queryer, sql string, args ...any) (T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		var zero T
		return zero, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[T])
}

func pointers(workers []evidence.Worker) []*evidence.Worker {
	list := make([]*evidence.Worker, len(workers))
	for i := range workers {
		list[i] = &workers[i]
	}
	return list
}
