// Package fences raises the fence of an account without claiming anything, and tells the highest one.
package fences

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/apierr"
	"railguard/services/fencing"
)

var (
	//go:embed raise.sql
	raiseSQL string
	//go:embed highest.sql
	highestSQL string
)

// Store holds the fences.
type Store struct{ Pool *pgxpool.Pool }

// Raise lifts the account's fence to floor and returns the fence that is now in force: the floor, or a
// higher one that was there before. It never lowers one (INV-05). NOT_FOUND when there is no such customer's account.
func (s *Store) Raise(ctx context.Context, accountID string, floor fencing.Token) (fencing.Token, error) {
	var fence fencing.Token
	err := s.Pool.QueryRow(ctx, raiseSQL, accountID, floor).Scan(&fence)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, apierr.New(apierr.NotFound, "no such customer's account")
	}
	return fence, err
}

// Highest is the highest token that this guard has stored for any account, 0 for none.
func (s *Store) Highest(ctx context.Context) (fencing.Token, error) {
	var highest fencing.Token
	err := s.Pool.QueryRow(ctx, highestSQL).Scan(&highest)
	return highest, err
}
