package query

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/services/paymentresource/internal/payout"
)

// Every form of the list is one statement of its own, so that the planner sees which index serves it: the
// filter's columns are equal to a constant, and the rest of the index is the order of the page.
const (
	pageSQL = `SELECT ` + payout.Columns + ` FROM payout p WHERE {filter} (p.created_at, p.payout_id) > ({after})
		ORDER BY p.created_at, p.payout_id LIMIT {limit}`

	// headsSQL steps from one account to the next through an index that begins with the account, so its cost is
	// the number of accounts and not of payouts.
	headsSQL = `WITH RECURSIVE head AS (
		(SELECT p.account_id, p.payout_id FROM payout p WHERE {filter} true ORDER BY p.account_id, p.created_at, p.payout_id LIMIT 1)
		UNION ALL
		SELECT next.account_id, next.payout_id FROM head, LATERAL (
			SELECT p.account_id, p.payout_id FROM payout p WHERE {filter} p.account_id > head.account_id
			ORDER BY p.account_id, p.created_at, p.payout_id LIMIT 1) next
		)
		SELECT ` + payout.Columns + ` FROM head JOIN payout p USING (payout_id)
		WHERE (p.created_at, p.payout_id) > ({after}) ORDER BY p.created_at, p.payout_id LIMIT {limit}`
)

// Statement is a list as one SQL statement with its arguments, for the pool and for whoever asks the database how it
// would run it. It reads one row more than the page holds. VALIDATION_FAILED for a cursor that no page gave.
func Statement(r paymentapi.ListPayoutsRequest) (sql string, args []any, err error) {
	after, err := parseCursor(r.Cursor)
	if err != nil {
		return "", nil, apierr.Field("cursor", "not a cursor that a page gave")
	}
	argument := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	filter := ""
	if r.State != "" {
		filter += "p.state = " + argument(string(r.State)) + " AND "
	}
	if r.AccountID != "" {
		filter += "p.account_id = " + argument(r.AccountID) + " AND "
	}
	sql = pageSQL
	limit := r.Limit + 1
	if r.OnePerAccount && r.AccountID != "" {
		limit = 1 // of one account, the oldest
	} else if r.OnePerAccount {
		sql = headsSQL
	}
	return strings.NewReplacer("{filter}", filter,
		"{after}", argument(after.createdAt)+"::timestamptz, "+argument(after.payoutID)+"::uuid",
		"{limit}", argument(limit)).Replace(sql), args, nil
}

// Payouts reads one page, oldest first, with the errors of Statement. A payout that moves on
// between two pages appears in neither, one, or both as its state then was: a sweep starts again from the first page.
func (s *Store) Payouts(ctx context.Context, r paymentapi.ListPayoutsRequest) (*paymentapi.PayoutPage, error) {
	sql, args, err := Statement(r)
	if err != nil {
		return nil, err
	}
	if r.OnePerAccount && r.AccountID != "" && r.Cursor != "" {
		return &paymentapi.PayoutPage{Payouts: []paymentapi.Payout{}}, nil
	}
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	page := paymentapi.PayoutPage{}
	page.Payouts, err = pgx.CollectRows(rows, payout.Scan)
	if err != nil {
		return nil, err
	}
	if len(page.Payouts) > r.Limit {
		page.Payouts = page.Payouts[:r.Limit]
		last := page.Payouts[r.Limit-1]
		page.NextCursor = position{last.CreatedAt, last.PayoutID}.cursor()
	}
	return &page, nil
}

// position is the place of a payout in the order of the list.
type position struct {
	createdAt time.Time
	payoutID  string
}

const cursorBytes = 8 + 16

func (p position) cursor() string {
	id := uuid.MustParse(p.payoutID) // from the database, where the column is a uuid
	data := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(p.createdAt.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(data, id[:]...))
}

// latestMicros keeps a forged cursor within what a timestamptz holds: the year 9999.
const latestMicros = 253_402_300_799_000_000

func parseCursor(cursor string) (position, error) {
	if cursor == "" {
		return position{time.UnixMicro(0), uuid.Nil.String()}, nil
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(data) != cursorBytes {
		return position{}, errors.New("malformed cursor")
	}
	micros := binary.BigEndian.Uint64(data)
	if micros > latestMicros {
		return position{}, errors.New("malformed cursor")
	}
	return position{time.UnixMicro(int64(micros)), uuid.UUID(data[8:]).String()}, nil
}
