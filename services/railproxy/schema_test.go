package railproxy

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/services/postgres"
)

const (
	insufficientPrivilege = "42501"
	restrictViolation     = "23001"
	checkViolation        = "23514"
)

// insertRecord inserts a record as the owner; outcome is SQL.
func (d *database) insertRecord(t *testing.T, outcome, resolvedAt string) (id string) {
	t.Helper()
	id = uuid.NewString()
	_, err := d.pool.Exec(t.Context(), `INSERT INTO rail_submission (submission_id, payout_id, account_id, owner_id, idempotency_key,
		presented_token, amount_minor, currency, proxy_instance, guarded, outcome, resolved_at)
		VALUES ($1, gen_random_uuid(), 'acc-1', 'run-1', 'key-1', 5, 1, 'EUR', 'instance-1', true, `+outcome+`, `+resolvedAt+`)`, id)
	require.NoError(t, err)
	return id
}

func requireState(t *testing.T, want string, err error, statement string) {
	t.Helper()
	require.Error(t, err, statement)
	code, _ := postgres.SQLState(err)
	require.Equal(t, want, code, "%s: %v", statement, err)
}

func TestEachRoleIsRefusedWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := newDatabase(t)
	_, err := db.pool.Exec(ctx, `CREATE TABLE account (account_id text PRIMARY KEY, fence bigint); GRANT SELECT, INSERT, UPDATE ON account TO payapp;
		INSERT INTO account VALUES ('acc-1', 1); INSERT INTO rail_high_water VALUES ('acc-1', 5)`)
	require.NoError(t, err)
	db.insertRecord(t, "NULL", "NULL")
	reads := []string{"SELECT * FROM rail_submission", "SELECT * FROM rail_high_water"}
	writes := []string{
		"INSERT INTO rail_high_water VALUES ('acc-2', 6)",
		"UPDATE rail_high_water SET highest_token = 6",
		"INSERT INTO rail_submission SELECT * FROM rail_submission",
		"UPDATE rail_submission SET outcome = 'UNSENT', resolved_at = now()",
	}
	destructive := []string{
		"DELETE FROM rail_high_water", "TRUNCATE rail_high_water", "UPDATE rail_high_water SET account_id = 'x'",
		"DELETE FROM rail_submission", "TRUNCATE rail_submission", "UPDATE rail_submission SET presented_token = 9",
		"UPDATE rail_submission SET guarded = false", "UPDATE rail_submission SET proxy_instance = 'mine'",
		"ALTER TABLE rail_submission DISABLE TRIGGER ALL", "DROP INDEX rail_submission_presented_once", "DROP TABLE rail_high_water",
		"CREATE TABLE rail_more (n int)",
	}
	account := []string{"SELECT * FROM account", "UPDATE account SET fence = 9", "INSERT INTO account VALUES ('acc-9', 1)", "DELETE FROM account"}
	for role, refused := range map[string][][]string{
		"railapp":    {destructive, account},
		"payapp":     {reads, writes, destructive},
		"reconciler": {writes, destructive, account[1:]},
	} {
		conn, err := pgx.Connect(ctx, db.roleURL(role))
		require.NoError(t, err)
		for _, statements := range refused {
			for _, statement := range statements {
				_, err := conn.Exec(ctx, statement)
				requireState(t, insufficientPrivilege, err, role+": "+statement)
			}
		}
		if role == "reconciler" {
			for _, statement := range reads {
				_, err := conn.Exec(ctx, statement)
				require.NoError(t, err, statement)
			}
		}
		require.NoError(t, conn.Close(ctx))
	}
}

// The owner may do everything; the triggers hold for the owner too.
func TestAnOutcomeIsWrittenOnceByWhomever(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := newDatabase(t)
	id := db.insertRecord(t, "NULL", "NULL")
	update := func(set string) error {
		_, err := db.pool.Exec(ctx, "UPDATE rail_submission SET "+set+" WHERE submission_id = $1", id)
		return err
	}
	for _, set := range []string{
		"presented_token = 6", "payout_id = gen_random_uuid()", "amount_minor = 2", "owner_id = 'x'", "submitted_at = now()",
		"outcome = 'FENCED', resolved_at = now()",
		"outcome = 'UNSENT', resolved_at = now(), presented_token = 6",
		"outcome = 'UNSENT', resolved_at = now(), guarded = false",
	} {
		requireState(t, restrictViolation, update(set), set)
	}
	for _, set := range []string{
		"outcome = 'UNSENT'", "outcome = 'ACKED', resolved_at = now()", "outcome = 'SETTLED', resolved_at = now()",
		"outcome = 'TIMEOUT', resolved_at = now(), rail_reference = 'R'",
	} {
		requireState(t, checkViolation, update(set), set)
	}
	require.NoError(t, update("outcome = 'TIMEOUT', resolved_at = now()"))
	for _, set := range []string{
		"outcome = 'ACKED', rail_reference = 'R'", "outcome = NULL, resolved_at = NULL", "outcome = 'UNSENT'", "resolved_at = now()",
		"outcome = 'TIMEOUT'",
	} {
		requireState(t, restrictViolation, update(set), set)
	}
	for _, statement := range []string{"DELETE FROM rail_submission", "TRUNCATE rail_submission"} {
		_, err := db.pool.Exec(ctx, statement)
		requireState(t, restrictViolation, err, statement)
	}
}

func TestASubmissionIsRecordedBeforeItIsMade(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insertRecord(t, "'FENCED'", "now()")
	for _, outcome := range []string{"ACKED", "REJECTED", "TIMEOUT", "UNSENT"} {
		_, err := db.pool.Exec(t.Context(), `INSERT INTO rail_submission (submission_id, payout_id, account_id, owner_id, idempotency_key,
			presented_token, amount_minor, currency, proxy_instance, guarded, outcome, resolved_at)
			VALUES (gen_random_uuid(), gen_random_uuid(), 'a', 'o', 'k', 5, 1, 'EUR', 'i', true, $1, now())`, outcome)
		requireState(t, restrictViolation, err, outcome)
	}
}

func TestTheMarkNeverGoesBackForWhomever(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := newDatabase(t)
	_, err := db.pool.Exec(ctx, "INSERT INTO rail_high_water VALUES ('acc-1', 5)")
	require.NoError(t, err)
	for _, statement := range []string{
		"UPDATE rail_high_water SET highest_token = 4", "UPDATE rail_high_water SET account_id = 'acc-2'",
		"DELETE FROM rail_high_water", "TRUNCATE rail_high_water",
		"INSERT INTO rail_high_water VALUES ('acc-1', 3) ON CONFLICT (account_id) DO UPDATE SET highest_token = excluded.highest_token",
	} {
		_, err := db.pool.Exec(ctx, statement)
		requireState(t, restrictViolation, err, statement)
	}
	require.EqualValues(t, 5, db.mark(t, "acc-1"))
	_, err = db.pool.Exec(ctx, "UPDATE rail_high_water SET highest_token = 6")
	require.NoError(t, err)
}

func TestMigrateMayBeRepeated(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	require.NoError(t, Migrate(t.Context(), db.server.URL(db.name)))
}

// What a submission costs must not depend on how many there are.
func TestTheQueriesOfASubmissionUseIndexes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := newDatabase(t)
	_, err := db.pool.Exec(ctx, `INSERT INTO rail_submission (submission_id, payout_id, account_id, owner_id, idempotency_key,
		presented_token, amount_minor, currency, proxy_instance, guarded)
		SELECT gen_random_uuid(), gen_random_uuid(), 'a', 'o', 'key-' || n, n, 1, 'EUR', 'i', true FROM generate_series(1, 5000) n`)
	require.NoError(t, err)
	_, err = db.pool.Exec(ctx, "ANALYZE rail_submission")
	require.NoError(t, err)
	for _, where := range []string{
		"payout_id = '00000000-0000-4000-8000-000000000000' OR idempotency_key = 'key-7'",
		"payout_id = '00000000-0000-4000-8000-000000000000' ORDER BY submitted_at, submission_id",
	} {
		rows, err := db.pool.Query(ctx, "EXPLAIN SELECT * FROM rail_submission WHERE "+where)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, line := range plan {
			require.NotContains(t, line, "Seq Scan", "%v", plan)
		}
	}
}
