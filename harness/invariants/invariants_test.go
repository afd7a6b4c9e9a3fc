package invariants_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local/pgserver"
	"railguard/deploy/migrate"
	"railguard/harness/invariants"
	"railguard/services/stubapi"
)

const readerPassword = "only-reads"

var (
	server    *pgserver.Server
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctx := context.Background()
		s, err := pgserver.Start(ctx, pgserver.Options{Volatile: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = s.Stop() }()
		server = s
		if err := prepare(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func prepare(ctx context.Context) error {
	for _, name := range []string{"lockdb", "template"} {
		if err := server.CreateDatabase(ctx, name, ""); err != nil {
			return err
		}
	}
	_, err := migrate.Run(ctx, migrate.Options{LockdbURL: server.URL("lockdb"), PaydbURL: server.URL("template"),
		Passwords: map[string]string{"reconciler": readerPassword}})
	return err
}

// fresh is a migrated database with nothing in it: a connection of its owner and one of the role that may only read.
func fresh(t *testing.T) (owner, reader *pgx.Conn) {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprintf("paydb_%d", databases.Add(1))
	require.NoError(t, server.CreateDatabase(ctx, name, "template"))
	owner = connect(t, server.URL(name))
	reader, err := pgx.Connect(ctx, server.RoleURL(name, "reconciler", readerPassword))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close(ctx)) })
	return owner, reader
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	// Parameters go into the statement as literals, so that one of them may serve as text and as uuid.
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

// clean is a database in which one payout of every fate is written, and what the rail saw of them.
func clean(t *testing.T) (owner, reader *pgx.Conn, requests []stubapi.Request) {
	t.Helper()
	ctx := context.Background()
	owner, reader = fresh(t)
	tx, err := owner.Begin(ctx)
	require.NoError(t, err)
	b := &books{t: t, tx: tx}
	b.write()
	require.NoError(t, tx.Commit(ctx))
	return owner, reader, b.requests
}

func TestCleanBooksHoldAndEveryCheckLooked(t *testing.T) {
	t.Parallel()
	_, reader, requests := clean(t)
	report, err := invariants.Check(context.Background(), reader, requests)
	require.NoError(t, err)
	require.True(t, report.OK(), report.String())
	require.Positive(t, report.Looked())
	for _, c := range report.Checks {
		require.Positive(t, c.Looked, "%s %s looked at nothing", c.Invariant, c.Name)
	}
}

func TestAnEmptyDatabaseIsNoEvidence(t *testing.T) {
	t.Parallel()
	_, reader := fresh(t)
	report, err := invariants.Check(context.Background(), reader, nil)
	require.NoError(t, err)
	require.True(t, report.OK())
	require.Zero(t, report.Looked())
}

func TestWithoutTheRailsLogItIsNotCompared(t *testing.T) {
	t.Parallel()
	_, reader, requests := clean(t)
	with, err := invariants.Check(context.Background(), reader, requests)
	require.NoError(t, err)
	without, err := invariants.Check(context.Background(), reader, nil)
	require.NoError(t, err)
	require.Len(t, without.Checks, len(with.Checks)-2)
}

// corruption is a way to break the clean books, and the checks that must flag it: those and no others. offender stands in each
// finding's rows.
type corruption struct {
	name     string
	sql      []string
	requests func([]stubapi.Request) []stubapi.Request
	flagged  []string
	offender string
}

var corruptions = []corruption{{
	name: "a transition under a stale token",
	sql: []string{`UPDATE payout_transition SET token = 11 WHERE payout_id = '` + declined + `' AND to_state = 'FAILED'`,
		`INSERT INTO payout_claim (payout_id, token, owner_id, balance_minor, outcome) VALUES ('` + declined + `', 11, 'x', 0, 'GRANTED')`},
	flagged:  []string{"transitions-in-order"},
	offender: declined,
}, {
	name: "a stale pair appended to the ledger (the lost update of an unguarded post)",
	sql: []string{`INSERT INTO ledger_entry (entry_group, payout_id, account_id, direction, amount_minor, fence, guarded) VALUES
		('aaaaaaaa-0000-4000-8000-000000000000', '` + recovered + `', 'acme', 'DEBIT', 100, 30, false),
		('aaaaaaaa-0000-4000-8000-000000000000', '` + recovered + `', 'clearing-EUR', 'CREDIT', 100, 30, false)`},
	flagged:  []string{"entries-in-order", "balance-is-entries", "posted-once"},
	offender: "acme",
}, {
	name:     "a submission admitted after one with a newer token",
	sql:      []string{`UPDATE rail_submission SET submitted_at = now() + interval '1 hour' WHERE payout_id = '` + posted + `'`},
	flagged:  []string{"submissions-in-order"},
	offender: posted,
}, {
	name: "a submission admitted at the mark instead of above it",
	sql: []string{`UPDATE rail_submission SET presented_token = 31 WHERE payout_id = '` + declined + `'`,
		`INSERT INTO payout_claim (payout_id, token, owner_id, balance_minor, outcome, ended_at, end_reason) VALUES ('` + declined + `', 31, 'x', 0, 'GRANTED', now(), 'FAILED')`},
	flagged:  []string{"submissions-in-order", "claims-above-fence"},
	offender: declined,
}, {
	name: "a second submission of a payout",
	sql: []string{`DROP INDEX rail_submission_presented_once`,
		`UPDATE rail_submission SET outcome = 'TIMEOUT' WHERE payout_id = '` + recovered + `' AND outcome = 'UNSENT'`},
	flagged:  []string{"presented-once"},
	offender: recovered,
}, {
	name:     "a second request at the rail",
	requests: func(log []stubapi.Request) []stubapi.Request { return append(log, stubapi.Request{ClientRef: posted}) },
	flagged:  []string{"rail-asked-once", "rail-requests-recorded"},
	offender: posted,
}, {
	name:     "a request at the rail whose submission is recorded as never sent",
	sql:      []string{`UPDATE rail_submission SET outcome = 'UNSENT', rail_reference = NULL WHERE payout_id = '` + posted + `'`},
	flagged:  []string{"rail-requests-recorded"},
	offender: posted,
}, {
	name: "a request at the rail of a payout that nobody knows",
	requests: func(log []stubapi.Request) []stubapi.Request {
		return append(log, stubapi.Request{ClientRef: "ffffffff-0000-4000-8000-000000000000"})
	},
	flagged:  []string{"rail-requests-recorded"},
	offender: "ffffffff-0000-4000-8000-000000000000",
}, {
	name:     "a leg of another amount",
	sql:      []string{`UPDATE ledger_entry SET amount_minor = 99 WHERE payout_id = '` + posted + `' AND direction = 'CREDIT'`},
	flagged:  []string{"groups-balance", "posted-once"},
	offender: posted,
}, {
	name:     "a group in two currencies",
	sql:      []string{`UPDATE ledger_entry SET account_id = 'clearing-JPY' WHERE payout_id = '` + posted + `' AND direction = 'CREDIT'`},
	flagged:  []string{"groups-balance"},
	offender: "EUR,JPY",
}, {
	name:     "a funding without a record",
	sql:      []string{`DELETE FROM funding WHERE account_id = 'acme'`},
	flagged:  []string{"fundings-recorded"},
	offender: "right_credits:0",
}, {
	name:     "a funding without entries",
	sql:      []string{`INSERT INTO funding (external_ref, account_id, amount_minor, entry_group) VALUES ('lost', 'acme', 1, gen_random_uuid())`},
	flagged:  []string{"fundings-recorded"},
	offender: "lost",
}, {
	name:     "a balance that the ledger does not explain",
	sql:      []string{`UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id = 'beta'`},
	flagged:  []string{"balance-is-entries"},
	offender: "beta",
}, {
	name:     "a reservation that was given back while the payout is ambiguous",
	sql:      []string{`UPDATE account SET reserved_minor = 0 WHERE account_id = 'acme'`},
	flagged:  []string{"reserved-is-open"},
	offender: "acme",
}, {
	name: "more reserved than there is",
	sql: []string{`ALTER TABLE account DROP CONSTRAINT account_balance_covers_reserved`,
		`UPDATE account SET balance_minor = 99 WHERE account_id = 'acme'`},
	flagged:  []string{"balance-is-entries", "reserved-in-bounds"},
	offender: "acme",
}, {
	name:     "a posted payout without entries",
	sql:      []string{`DELETE FROM ledger_entry WHERE payout_id = '` + posted + `'`, `UPDATE account SET balance_minor = balance_minor + 100 WHERE account_id = 'acme'`},
	flagged:  []string{"posted-once"},
	offender: posted,
}, {
	name:     "a fence that went back",
	sql:      []string{`UPDATE account SET fence = 31 WHERE account_id = 'acme'`},
	flagged:  []string{"account-fence"},
	offender: "acme",
}, {
	name:     "two claims under one token",
	sql:      []string{`INSERT INTO payout_claim (payout_id, token, owner_id, balance_minor, outcome) VALUES ('` + pending + `', 41, 'x', 0, 'GRANTED')`},
	flagged:  []string{"claims-above-fence"},
	offender: pending,
}, {
	name:     "a mark that went back",
	sql:      []string{`UPDATE rail_high_water SET highest_token = 31 WHERE account_id = 'acme'`},
	flagged:  []string{"rail-mark"},
	offender: "acme",
}, {
	name:     "a mark that is gone",
	sql:      []string{`DELETE FROM rail_high_water WHERE account_id = 'beta'`},
	flagged:  []string{"rail-mark"},
	offender: "beta",
}, {
	name:     "a token out of nowhere at the rail",
	sql:      []string{`UPDATE rail_submission SET presented_token = 42 WHERE payout_id = '` + claimed + `'`, `UPDATE rail_high_water SET highest_token = 42 WHERE account_id = 'beta'`},
	flagged:  []string{"submissions-claimed"},
	offender: claimed,
}, {
	name:     "a submission under a claim that was refused",
	sql:      []string{`UPDATE payout_claim SET outcome = 'INSUFFICIENT_FUNDS', ended_at = now(), end_reason = 'INSUFFICIENT_FUNDS' WHERE payout_id = '` + claimed + `'`},
	flagged:  []string{"submissions-claimed"},
	offender: claimed,
}, {
	name:     "a token out of nowhere in the ledger",
	sql:      []string{`UPDATE ledger_entry SET fence = 32 WHERE payout_id = '` + recovered + `'`},
	flagged:  []string{"entries-claimed"},
	offender: recovered,
}, {
	name:     "a token out of nowhere in the audit",
	sql:      []string{`DELETE FROM payout_claim WHERE payout_id = '` + short + `'`},
	flagged:  []string{"transitions-claimed"},
	offender: short,
}, {
	name: "a way out of FAILED",
	sql: []string{`INSERT INTO payout_transition (payout_id, from_state, to_state, owner_id, reason) VALUES ('` + short + `', 'FAILED', 'PENDING', 'x', 'x')`,
		`UPDATE payout SET state = 'PENDING' WHERE payout_id = '` + short + `'`},
	flagged:  []string{"legal-steps"},
	offender: short,
}, {
	name:     "a missing step",
	sql:      []string{`DELETE FROM payout_transition WHERE payout_id = '` + posted + `' AND to_state = 'RAIL_SUBMITTED'`},
	flagged:  []string{"unbroken-path"},
	offender: posted,
}, {
	name:     "a payout without its creation",
	sql:      []string{`DELETE FROM payout_transition WHERE payout_id = '` + cancelled + `' AND from_state IS NULL`},
	flagged:  []string{"unbroken-path"},
	offender: cancelled,
}, {
	name:     "a state without its audit",
	sql:      []string{`UPDATE payout SET state = 'ABANDONED' WHERE payout_id = '` + pending + `'`},
	flagged:  []string{"path-ends-in-state"},
	offender: pending,
}, {
	name: "a payout that stopped between the rail and its outcome",
	sql: []string{`INSERT INTO payout_transition (payout_id, from_state, to_state, token, owner_id, reason) VALUES ('` + claimed + `', 'CLAIMED', 'RAIL_SUBMITTED', 41, 'x', 'x')`,
		`UPDATE payout SET state = 'RAIL_SUBMITTED' WHERE payout_id = '` + claimed + `'`},
	flagged:  []string{"reserved-is-open", "path-ends-in-state"},
	offender: "beta",
}, {
	name:     "out of the quarantine without a resolution",
	sql:      []string{`DELETE FROM payout_resolution WHERE payout_id = '` + writtenOff + `'`},
	flagged:  []string{"transitions-claimed", "resolved-by-record"},
	offender: writtenOff,
}, {
	name:     "out of the quarantine by a resolution of another kind",
	sql:      []string{`UPDATE payout_resolution SET outcome = 'ABANDONED' WHERE payout_id = '` + absent + `'`},
	flagged:  []string{"resolved-by-record"},
	offender: absent,
}, {
	name:     "a resolution that changed nothing",
	sql:      []string{`INSERT INTO payout_resolution (payout_id, outcome, evidence, token, decided_by, reason) VALUES ('` + ambiguous + `', 'ABSENT', '{}', 23, 'x', 'x')`},
	flagged:  []string{"resolutions-applied"},
	offender: ambiguous,
}}

func TestEachCorruptionIsFlagged(t *testing.T) {
	t.Parallel()
	for _, c := range corruptions {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			owner, reader, requests := clean(t)
			_, err := owner.Exec(ctx, `SET session_replication_role = replica`) // no trigger fires, no foreign key is checked
			require.NoError(t, err)
			for _, sql := range c.sql {
				tag, err := owner.Exec(ctx, sql)
				require.NoError(t, err, sql)
				require.False(t, strings.HasSuffix(tag.String(), " 0"), "%s changed nothing", sql)
			}
			if c.requests != nil {
				requests = c.requests(requests)
			}
			report, err := invariants.Check(ctx, reader, requests)
			require.NoError(t, err)
			var flagged []string
			for _, f := range report.Findings {
				flagged = append(flagged, f.Name)
				require.NotEmpty(t, f.Sentence)
				require.NotEmpty(t, f.Rows)
				require.Len(t, f.Rows[0], len(f.Columns))
				require.Contains(t, fmt.Sprint(f.Rows), c.offender, f.Name)
			}
			require.ElementsMatch(t, c.flagged, flagged, report.String())
		})
	}
}

func TestEveryCheckHasACorruptionThatItFlags(t *testing.T) {
	t.Parallel()
	_, reader := fresh(t)
	report, err := invariants.Check(context.Background(), reader, []stubapi.Request{})
	require.NoError(t, err)
	missing := map[string]bool{}
	for _, c := range report.Checks {
		missing[c.Name] = true
	}
	for _, c := range corruptions {
		for _, name := range c.flagged {
			delete(missing, name)
		}
	}
	require.Empty(t, slices.Collect(maps.Keys(missing)))
}

func TestAFindingIsBounded(t *testing.T) {
	t.Parallel()
	_, reader := fresh(t)
	var requests []stubapi.Request
	for i := range invariants.MaxRows + 7 {
		requests = append(requests, stubapi.Request{ClientRef: fmt.Sprintf("ref-%03d", i)})
	}
	report, err := invariants.Check(context.Background(), reader, requests)
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Len(t, report.Findings[0].Rows, invariants.MaxRows)
	require.EqualValues(t, invariants.MaxRows+7, report.Findings[0].Offending)
	require.Contains(t, report.String(), "and 7 more")
}
