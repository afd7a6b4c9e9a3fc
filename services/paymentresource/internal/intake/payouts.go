package intake

import (
	"context"
	_ "embed"
	"strconv"

	"github.com/jackc/pgx/v5"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
	"railguard/services/paymentresource/internal/store"
)

var (
	//go:embed payouts.sql
	payoutsSQL string
	//go:embed wrong.sql
	wrongSQL string
)

const madeSQL = `SELECT ` + payout.Columns + ` FROM payout p WHERE p.external_ref = ANY ($1)`

// columns is a list of requests, turned by ninety degrees for unnest.
type columns struct {
	ids, refs, accounts, currencies, beneficiaries []string
	amounts                                        []int64
}

func turn(requests []paymentapi.CreatePayoutRequest) columns {
	var c columns
	for _, r := range requests {
		c.ids = append(c.ids, newID())
		c.refs = append(c.refs, r.ExternalRef)
		c.accounts = append(c.accounts, r.AccountID)
		c.amounts = append(c.amounts, r.AmountMinor)
		c.currencies = append(c.currencies, string(r.Currency))
		c.beneficiaries = append(c.beneficiaries, r.BeneficiaryRef)
	}
	return c
}

// CreatePayouts makes the payouts, all of them or none, and gives them in the order of the requests; created is
// how many of them are new. No external reference may appear twice in requests. field names the field of one
// request in an error. Errors: VALIDATION_FAILED (no such customer's account, or not in its currency), IDEMPOTENCY_CONFLICT (a
// reference was used for a payout with another body); details.fields names each one.
func (s *Store) CreatePayouts(ctx context.Context, requests []paymentapi.CreatePayoutRequest, ownerID string,
	field func(index int, name string) string) (payouts []paymentapi.Payout, created int, err error) {
	c := turn(requests)
	err = store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, payoutsSQL, c.ids, c.refs, c.accounts, c.amounts, c.currencies, c.beneficiaries, ownerID)
		if err != nil {
			return err
		}
		created = int(tag.RowsAffected())
		if created < len(requests) {
			if err := wrongAccounts(ctx, tx, c, field); err != nil {
				return err
			}
		}
		payouts, err = made(ctx, tx, c, requests, field)
		return err
	})
	return payouts, created, err
}

func wrongAccounts(ctx context.Context, tx pgx.Tx, c columns, field func(int, string) string) error {
	rows, err := tx.Query(ctx, wrongSQL, c.accounts, c.currencies)
	if err != nil {
		return err
	}
	wrong := make(map[string]string)
	var n int
	var absent bool
	_, err = pgx.ForEachRow(rows, []any{&n, &absent}, func() error {
		if absent {
			wrong[field(n-1, "accountId")] = "no such customer's account"
		} else {
			wrong[field(n-1, "currency")] = "not the account's currency"
		}
		return nil
	})
	if err == nil && len(wrong) > 0 {
		return apierr.Fields(wrong)
	}
	return err
}

// CheckPayouts judges requests as CreatePayouts does and writes nothing. It gives the payouts that were made of them
// before; the others would be new.
func (s *Store) CheckPayouts(ctx context.Context, requests []paymentapi.CreatePayoutRequest, field func(index int, name string) string) ([]paymentapi.Payout, error) {
	c := turn(requests)
	var known []paymentapi.Payout
	err := store.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		known = []paymentapi.Payout{}
		if err := wrongAccounts(ctx, tx, c, field); err != nil {
			return err
		}
		byRef, err := recorded(ctx, tx, c)
		if err != nil {
			return err
		}
		conflicts := make(map[string]string)
		for i, r := range requests {
			p, made := byRef[r.ExternalRef]
			if made && !same(p, r) {
				conflicts[field(i, "externalRef")] = otherBody
			}
			if made {
				known = append(known, p)
			}
		}
		return conflict(conflicts)
	})
	return known, err
}

// made reads the payouts by their external references and compares those that were made before.
func made(ctx context.Context, tx pgx.Tx, c columns, requests []paymentapi.CreatePayoutRequest, field func(int, string) string) ([]paymentapi.Payout, error) {
	byRef, err := recorded(ctx, tx, c)
	if err != nil {
		return nil, err
	}
	payouts := make([]paymentapi.Payout, 0, len(requests))
	conflicts := make(map[string]string)
	for i, r := range requests {
		p := byRef[r.ExternalRef]
		if !same(p, r) {
			conflicts[field(i, "externalRef")] = otherBody
		}
		payouts = append(payouts, p)
	}
	return payouts, conflict(conflicts)
}

// recorded gives the payouts that stand under the references.
func recorded(ctx context.Context, tx pgx.Tx, c columns) (map[string]paymentapi.Payout, error) {
	rows, err := tx.Query(ctx, madeSQL, c.refs)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, payout.Scan)
	if err != nil {
		return nil, err
	}
	byRef := make(map[string]paymentapi.Payout, len(found))
	for _, p := range found {
		byRef[p.ExternalRef] = p
	}
	return byRef, nil
}

func same(p paymentapi.Payout, r paymentapi.CreatePayoutRequest) bool {
	return p.AccountID == r.AccountID && p.AmountMinor == r.AmountMinor && p.Currency == r.Currency && p.BeneficiaryRef == r.BeneficiaryRef
}

const otherBody = "used for a payout with another body"

// conflict is nil when there are none.
func conflict(fields map[string]string) error {
	if len(fields) == 0 {
		return nil
	}
	return apierr.New(apierr.IdempotencyConflict, "%s external reference(s) were used for payouts with another body",
		strconv.Itoa(len(fields))).With("fields", fields)
}
