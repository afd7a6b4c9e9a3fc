package paymentresource

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/services/postgres"
)

const insufficientPrivilege = "42501"

// Each database role is refused what is not its business, before any trigger has to.
func TestDatabaseRolesAreRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	p := f.payout("acc", 10)
	f.claimed(p, 1)
	f.post(p, 1, acknowledgement("r"))
	ctx := context.Background()
	// A table that its owner adds later stands for those of the rail's guard: nothing is granted by default.
	_, err := f.owner.Exec(ctx, `CREATE TABLE rail_high_water (account_id text PRIMARY KEY, highest_token bigint)`)
	require.NoError(t, err)
	connect := func(role, password string) *pgx.Conn {
		conn, err := pgx.Connect(ctx, pg.RoleURL(f.database, role, password))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(ctx) })
		return conn
	}
	payapp, reconciler := connect("payapp", payappPassword), connect("reconciler", reconPassword)
	before := f.snapshot()
	refuse := func(conn *pgx.Conn, statements ...string) {
		t.Helper()
		for _, sql := range statements {
			_, err := conn.Exec(ctx, sql)
			code, _ := postgres.SQLState(err)
			require.Equal(t, insufficientPrivilege, code, "%s: %v", sql, err)
		}
	}
	refuse(payapp,
		`UPDATE ledger_entry SET amount_minor = 1`, `DELETE FROM ledger_entry`, `TRUNCATE ledger_entry`,
		`UPDATE payout_transition SET reason = ''`, `DELETE FROM payout_transition`, `TRUNCATE payout_transition`,
		`UPDATE payout_resolution SET reason = ''`, `DELETE FROM payout_resolution`,
		`UPDATE funding SET amount_minor = 1`, `DELETE FROM funding`,
		`DELETE FROM payout`, `DELETE FROM account`, `DELETE FROM payout_claim`, `TRUNCATE payout CASCADE`,
		`UPDATE payout SET amount_minor = 1`, `UPDATE payout SET account_id = 'x'`, `UPDATE payout SET idempotency_key = 'x'`,
		`UPDATE account SET currency = 'USD'`, `UPDATE account SET kind = 'CLEARING'`, `UPDATE payout_claim SET token = 9`,
		`SELECT FROM rail_high_water`, `INSERT INTO rail_high_water VALUES ('acc', 9)`, `UPDATE rail_high_water SET highest_token = 1`,
		`DELETE FROM rail_high_water`, `CREATE TABLE mine (n int)`, `ALTER TABLE payout DISABLE TRIGGER ALL`,
		`SET session_replication_role = replica`)
	refuse(reconciler,
		`INSERT INTO account (account_id, kind, currency) VALUES ('x', 'CUSTOMER', 'EUR')`, `UPDATE account SET fence = 9`,
		`UPDATE payout SET state = 'FAILED'`, `DELETE FROM payout`, `UPDATE ledger_entry SET amount_minor = 1`,
		`INSERT INTO payout_resolution (payout_id, outcome, token, decided_by, reason) VALUES (gen_random_uuid(), 'ABANDONED', 1, 'x', 'r')`,
		`CREATE TABLE mine (n int)`)
	require.Equal(t, before, f.snapshot())
	for _, table := range []string{"account", "payout", "payout_claim", "payout_transition", "payout_resolution", "payout_evidence",
		"payout_resolution_proposal", "funding", "ledger_entry"} {
		_, err := reconciler.Exec(ctx, `SELECT FROM `+table)
		require.NoError(t, err, "the reconciler reads %s", table)
	}
	require.Zero(t, one[int](f, `SELECT count(*) FROM information_schema.role_table_grants WHERE grantee = 'PUBLIC' AND table_schema = 'public'`))
}

func TestMigrateTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.account("acc", 1000)
	before := f.snapshot()
	require.NoError(t, Migrate(context.Background(), pg.URL(f.database)))
	require.Equal(t, before, f.snapshot())
}
