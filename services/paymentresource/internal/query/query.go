// Package query reads: one account, one payout with its history, pages of payouts. What it says is advisory, no
// write is allowed on the strength of it.
package query

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
)

//go:embed account.sql
var accountSQL string

const (
	payoutSQL      = `SELECT ` + payout.Columns + ` FROM payout p WHERE p.payout_id = $1`
	transitionsSQL = `SELECT coalesce(from_state, ''), to_state, coalesce(token, 0), owner_id, reason, at
		FROM payout_transition WHERE payout_id = $1 ORDER BY id`
)

// Store reads.
type Store struct{ Pool *pgxpool.Pool }

// Account reads an account and sums its ledger entries; NOT_FOUND when there is none. A clearing account has no
// other balance than that sum.
func (s *Store) Account(ctx context.Context, accountID string) (*paymentapi.Account, error) {
	var a paymentapi.Account
	err := s.Pool.QueryRow(ctx, accountSQL, accountID).Scan(&a.AccountID, &a.Kind, &a.Currency, &a.BalanceMinor,
		&a.ReservedMinor, &a.Fence, &a.LedgerSumMinor)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, apierr.New(apierr.NotFound, "no such account")
	}
	if a.Kind == paymentapi.Clearing {
		a.BalanceMinor = a.LedgerSumMinor
	}
	a.AvailableMinor = a.BalanceMinor - a.ReservedMinor
	return &a, err
}

// Payout reads a payout with its transitions, oldest first; NOT_FOUND when there is none.
func (s *Store) Payout(ctx context.Context, payoutID string) (*paymentapi.Payout, error) {
	batch := &pgx.Batch{}
	batch.Queue(payoutSQL, payoutID)
	batch.Queue(transitionsSQL, payoutID)
	results := s.Pool.SendBatch(ctx, batch)
	defer func() { _ = results.Close() }() // a failed batch is seen by what reads it
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	p, err := pgx.CollectExactlyOneRow(rows, payout.Scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, payout.NotFound()
	}
	if err != nil {
		return nil, err
	}
	if rows, err = results.Query(); err != nil {
		return nil, err
	}
	p.Transitions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (paymentapi.Transition, error) {
		var t paymentapi.Transition
		return t, row.Scan(&t.FromState, &t.ToState, &t.Token, &t.OwnerID, &t.Reason, &t.At)
	})
	return &p, err
}
