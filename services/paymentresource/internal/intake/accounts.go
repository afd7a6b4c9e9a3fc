// Package intake takes in accounts, fundings and payouts. Everything in it is identified by its caller, so a repeat
// answers the same and makes nothing.
package intake

import (
	"context"
	_ "embed"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/store"
	"railguard/services/postgres"
)

var (
	//go:embed account.sql
	accountSQL string
	//go:embed clearing.sql
	clearingSQL string
	//go:embed account_same.sql
	accountSameSQL string
	//go:embed funding.sql
	fundingSQL string
	//go:embed credit.sql
	creditSQL string
	//go:embed funding_made.sql
	fundingMadeSQL string
)

// OpeningRef begins the external reference of an account's opening funding; the account id follows.
const OpeningRef = "opening:"

// ReservedPrefixes begin the ids of clearing accounts: clearing.EUR stands against payouts, funding.EUR against fundings.
var ReservedPrefixes = []string{"clearing.", "funding."}

// Store takes in.
type Store struct{ Pool *pgxpool.Pool }

// CreateAccount makes a customer's account, and the clearing accounts of its currency when they are missing.
// IDEMPOTENCY_CONFLICT when the id is taken with another currency or opening.
func (s *Store) CreateAccount(ctx context.Context, r paymentapi.CreateAccountRequest) error {
	ref, group := OpeningRef+r.AccountID, newID()
	return store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(clearingSQL, r.Currency)
		batch.Queue(accountSQL, r.AccountID, r.Currency, r.OpeningMinor)
		touched, err := store.Touched(tx.SendBatch(ctx, batch), batch.Len())
		if err != nil {
			return err
		}
		if touched[1] == 0 {
			return sameAccount(ctx, tx, ref, r)
		}
		if r.OpeningMinor == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, fundingSQL, ref, r.AccountID, r.OpeningMinor, group)
		return err
	})
}

func newID() string { return uuid.Must(uuid.NewV7()).String() } // fails only when the system has no randomness

func sameAccount(ctx context.Context, tx pgx.Tx, ref string, r paymentapi.CreateAccountRequest) error {
	var same bool
	err := tx.QueryRow(ctx, accountSameSQL, r.AccountID, r.Currency, r.OpeningMinor, ref).Scan(&same)
	if err == nil && !same {
		return apierr.New(apierr.IdempotencyConflict, "account %s exists with another currency or opening", r.AccountID)
	}
	return err
}

// Fund credits a customer's account. Errors: NOT_FOUND, VALIDATION_FAILED (the balance would be out of range),
// IDEMPOTENCY_CONFLICT (the reference was used for another account or amount).
func (s *Store) Fund(ctx context.Context, accountID string, r paymentapi.FundingRequest) (*paymentapi.Funding, error) {
	var answer *paymentapi.Funding
	group := newID()
	fund := func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, creditSQL, accountID, r.AmountMinor, r.ExternalRef)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			if _, err := tx.Exec(ctx, fundingSQL, r.ExternalRef, accountID, r.AmountMinor, group); err != nil {
				return err
			}
		}
		answer, err = funded(ctx, tx, accountID, r)
		return err
	}
	err := store.InTx(ctx, s.Pool, fund)
	if code, _ := postgres.SQLState(err); code == postgres.UniqueViolation {
		// The same reference at the same time on another account: it is committed now, and can be read.
		err = store.InTx(ctx, s.Pool, fund)
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// funded is the funding that is recorded under the reference, or why there is none.
func funded(ctx context.Context, tx pgx.Tx, accountID string, r paymentapi.FundingRequest) (*paymentapi.Funding, error) {
	var f paymentapi.Funding
	err := tx.QueryRow(ctx, fundingMadeSQL, r.ExternalRef).Scan(&f.ExternalRef, &f.AccountID, &f.AmountMinor, &f.BalanceMinor, &f.At)
	switch {
	case err == nil && (f.AccountID != accountID || f.AmountMinor != r.AmountMinor):
		return nil, apierr.New(apierr.IdempotencyConflict, "the reference was used for another account or amount")
	case err == nil:
		return &f, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, err
	}
	var customer bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM account WHERE account_id = $1 AND kind = 'CUSTOMER')`, accountID).Scan(&customer)
	if err == nil && !customer {
		return nil, apierr.New(apierr.NotFound, "no such customer's account")
	}
	if err != nil {
		return nil, err
	}
	return nil, apierr.Field("amountMinor", "the balance would be out of range")
}
