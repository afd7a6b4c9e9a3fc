package invariants_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/services/stubapi"
)

// books writes, step by step and under the database's own triggers, what the services write when all goes well.
type books struct {
	t  *testing.T
	tx pgx.Tx
	// requests is what the rail saw meanwhile.
	requests []stubapi.Request
}

func (b *books) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.tx.Exec(context.Background(), sql, args...)
	require.NoError(b.t, err, sql)
}

const owner = "books"

func (b *books) clearing(currency string) {
	b.exec(`INSERT INTO account (account_id, kind, currency) VALUES ('clearing-' || $1, 'CLEARING', $1)`, currency)
}

// account opens a customer's account with funds in it.
func (b *books) account(id, currency string, opening int64) {
	group := uuid.NewString()
	b.exec(`INSERT INTO account (account_id, kind, currency, balance_minor) VALUES ($1, 'CUSTOMER', $2, $3)`, id, currency, opening)
	b.exec(`INSERT INTO funding (external_ref, account_id, amount_minor, entry_group) VALUES ('opening:' || $1, $1, $2, $3)`, id, opening, group)
	b.exec(`INSERT INTO ledger_entry (entry_group, account_id, direction, amount_minor, fence) VALUES
		($1, $2, 'CREDIT', $4, 0), ($1, 'clearing-' || $3, 'DEBIT', $4, 0)`, group, id, currency, opening)
}

// payout makes a PENDING payout.
func (b *books) payout(id, account string, amount int64) {
	b.exec(`INSERT INTO payout (payout_id, account_id, amount_minor, currency, beneficiary_ref, idempotency_key, external_ref)
		SELECT $1, account_id, $3, currency, 'beneficiary', $1::text, 'ref-' || $1::text FROM account WHERE account_id = $2`, id, account, amount)
	b.exec(`INSERT INTO payout_transition (payout_id, to_state, owner_id, reason) VALUES ($1, 'PENDING', $2, 'created')`, id, owner)
}

// move takes a payout one step, with its audit row. A token of 0 is none.
func (b *books) move(id, to string, token int64) {
	b.exec(`INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
		SELECT payout_id, state, $2, nullif($3::bigint, 0), $4, 'moved' FROM payout WHERE payout_id = $1`, id, to, token, owner)
	b.exec(`UPDATE payout SET state = $2 WHERE payout_id = $1`, id, to)
}

// claim is the first claim, or a recovery when the payout was claimed before.
func (b *books) claim(id string, token int64) {
	b.exec(`UPDATE account SET fence = $2, reserved_minor = reserved_minor + CASE p.state WHEN 'PENDING' THEN p.amount_minor ELSE 0 END
		FROM payout p WHERE p.payout_id = $1 AND p.account_id = account.account_id AND fence < $2`, id, token)
	b.exec(`UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = 'SUPERSEDED' WHERE payout_id = $1 AND ended_at IS NULL`, id)
	b.exec(`INSERT INTO payout_claim (payout_id, token, owner_id, balance_minor, outcome)
		SELECT payout_id, $2, $3, balance_minor, 'GRANTED' FROM payout JOIN account USING (account_id) WHERE payout_id = $1`, id, token, owner)
	b.exec(`INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason)
		SELECT payout_id, state, CASE state WHEN 'PENDING' THEN 'CLAIMED' ELSE state END, $2, $3, 'claimed' FROM payout WHERE payout_id = $1`, id, token, owner)
	b.exec(`UPDATE payout SET state = CASE state WHEN 'PENDING' THEN 'CLAIMED' ELSE state END, claim_token = $2, attempt_count = attempt_count + 1
		WHERE payout_id = $1`, id, token)
}

// refuse is a claim for which the funds are short.
func (b *books) refuse(id string, token int64) {
	b.exec(`UPDATE account SET fence = $2 FROM payout p WHERE p.payout_id = $1 AND p.account_id = account.account_id`, id, token)
	b.exec(`INSERT INTO payout_claim (payout_id, token, owner_id, balance_minor, outcome, ended_at, end_reason)
		SELECT payout_id, $2, $3, balance_minor, 'INSUFFICIENT_FUNDS', clock_timestamp(), 'INSUFFICIENT_FUNDS'
		FROM payout JOIN account USING (account_id) WHERE payout_id = $1`, id, token, owner)
	b.move(id, "FAILED", token)
}

// submit records a submission at the rail's guard; an outcome of "" leaves it open.
func (b *books) submit(id string, token int64, outcome string) {
	submission := uuid.NewString()
	b.exec(`INSERT INTO rail_high_water AS w (account_id, highest_token) SELECT account_id, $2 FROM payout WHERE payout_id = $1
		ON CONFLICT (account_id) DO UPDATE SET highest_token = greatest(w.highest_token, excluded.highest_token)`, id, token)
	b.exec(`INSERT INTO rail_submission (submission_id, payout_id, account_id, owner_id, idempotency_key, presented_token, amount_minor, currency,
			guarded, proxy_instance, outcome, resolved_at)
		SELECT $1, payout_id, account_id, $4, idempotency_key, $3, amount_minor, currency, true, 'proxy',
			CASE $5 WHEN 'FENCED' THEN 'FENCED' END, CASE $5 WHEN 'FENCED' THEN clock_timestamp() END
		FROM payout WHERE payout_id = $2`, submission, id, token, owner, outcome)
	if outcome == "FENCED" {
		return
	}
	if outcome != "UNSENT" {
		b.requests = append(b.requests, stubapi.Request{Sequence: int64(len(b.requests) + 1), ClientRef: id})
	}
	if outcome != "" {
		b.exec(`UPDATE rail_submission SET outcome = $2, resolved_at = clock_timestamp(), rail_reference = CASE $2 WHEN 'ACKED' THEN 'rail-1' END
			WHERE submission_id = $1`, submission, outcome)
	}
}

// acknowledge takes a claimed payout to RAIL_ACKED.
func (b *books) acknowledge(id string, token int64) {
	b.exec(`UPDATE payout SET rail_reference = 'rail-1', claim_token = claim_token + 0, state = 'RAIL_SUBMITTED' WHERE payout_id = $1`, id)
	b.exec(`INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason) VALUES ($1, 'CLAIMED', 'RAIL_SUBMITTED', $2, $3, 'moved')`, id, token, owner)
	b.move(id, "RAIL_ACKED", token)
}

// post turns the reservation into the debit.
func (b *books) post(id string, token int64) {
	b.exec(`UPDATE account SET balance_minor = balance_minor - amount_minor, reserved_minor = reserved_minor - amount_minor
		FROM payout p WHERE p.payout_id = $1 AND p.account_id = account.account_id`, id)
	b.exec(`INSERT INTO ledger_entry (entry_group, payout_id, account_id, direction, amount_minor, fence)
		SELECT $2::uuid, payout_id, account_id, 'DEBIT', amount_minor, $3::bigint FROM payout WHERE payout_id = $1
		UNION ALL SELECT $2::uuid, payout_id, 'clearing-' || currency, 'CREDIT', amount_minor, $3::bigint FROM payout WHERE payout_id = $1`, id, uuid.NewString(), token)
	b.exec(`UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = 'POSTED' WHERE payout_id = $1 AND ended_at IS NULL`, id)
	b.move(id, "POSTED", token)
}

// give releases the reservation.
func (b *books) give(id string) {
	b.exec(`UPDATE account SET reserved_minor = reserved_minor - amount_minor FROM payout p WHERE p.payout_id = $1 AND p.account_id = account.account_id`, id)
}

// record takes a claimed payout over RAIL_SUBMITTED to what became of it.
func (b *books) record(id, to string, token int64) {
	b.move(id, "RAIL_SUBMITTED", token)
	b.move(id, to, token)
	b.exec(`UPDATE payout_claim SET ended_at = clock_timestamp(), end_reason = $2 WHERE payout_id = $1 AND ended_at IS NULL`, id, to)
}

// resolve takes an ambiguous payout out of the quarantine.
func (b *books) resolve(id, outcome, to string, token int64) {
	b.exec(`UPDATE account SET fence = $2 FROM payout p WHERE p.payout_id = $1 AND p.account_id = account.account_id`, id, token)
	b.exec(`INSERT INTO payout_resolution (payout_id, outcome, rail_reference, evidence, token, decided_by, reason)
		VALUES ($1, $2, CASE $2 WHEN 'SETTLED' THEN 'rail-1' END, '{}', $3, 'resolver', 'evidence')`, id, outcome, token)
	if outcome == "SETTLED" {
		b.exec(`INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason) VALUES ($1, 'RAIL_AMBIGUOUS', $2, $3, $4, 'moved')`, id, to, token, owner)
		b.exec(`UPDATE payout SET state = $2, rail_reference = 'rail-1' WHERE payout_id = $1`, id, to)
		return
	}
	b.move(id, to, token)
	b.give(id)
}

// The payouts of the clean books, by what became of them.
const (
	posted     = "00000000-0000-4000-8000-000000000001"
	short      = "00000000-0000-4000-8000-000000000002"
	ambiguous  = "00000000-0000-4000-8000-000000000003"
	settled    = "00000000-0000-4000-8000-000000000004"
	absent     = "00000000-0000-4000-8000-000000000005"
	cancelled  = "00000000-0000-4000-8000-000000000006"
	recovered  = "00000000-0000-4000-8000-000000000007"
	pending    = "00000000-0000-4000-8000-000000000008"
	claimed    = "00000000-0000-4000-8000-000000000009"
	declined   = "00000000-0000-4000-8000-00000000000a"
	writtenOff = "00000000-0000-4000-8000-00000000000b"
)

// write is one payout of every fate, in the order of their tokens.
func (b *books) write() {
	b.clearing("EUR")
	b.clearing("JPY")
	b.account("acme", "EUR", 100_000)
	b.account("beta", "JPY", 5_000)
	for id, account := range map[string]string{posted: "acme", short: "beta", ambiguous: "acme", settled: "acme", absent: "acme", cancelled: "acme",
		recovered: "acme", pending: "beta", claimed: "beta", declined: "acme", writtenOff: "acme"} {
		amount := int64(100)
		if id == short {
			amount = 9_999
		}
		b.payout(id, account, amount)
	}
	b.claim(posted, 10)
	b.submit(posted, 10, "ACKED")
	b.acknowledge(posted, 10)
	b.post(posted, 10)
	b.refuse(short, 11)
	for i, id := range []string{ambiguous, settled, absent, writtenOff} {
		b.claim(id, 12+int64(i))
		b.submit(id, 12+int64(i), "TIMEOUT")
		b.record(id, "RAIL_AMBIGUOUS", 12+int64(i))
	}
	b.resolve(settled, "SETTLED", "RAIL_ACKED", 20)
	b.claim(settled, 21)
	b.post(settled, 21)
	b.resolve(absent, "ABSENT", "FAILED", 22)
	b.resolve(writtenOff, "ABANDONED", "ABANDONED", 23)
	b.move(cancelled, "ABANDONED", 0)
	b.claim(recovered, 30)
	b.submit(recovered, 30, "UNSENT")
	b.claim(recovered, 31)
	b.submit(recovered, 31, "ACKED")
	b.submit(recovered, 30, "FENCED") // the first claimant woke up
	b.acknowledge(recovered, 31)
	b.post(recovered, 31)
	b.claim(declined, 40)
	b.submit(declined, 40, "REJECTED")
	b.record(declined, "FAILED", 40)
	b.give(declined)
	b.claim(claimed, 41)
	b.submit(claimed, 41, "")
}
