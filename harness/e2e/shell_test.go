package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
	"railguard/deploy/local/pgserver"
	"railguard/harness/cluster"
	"railguard/harness/faults"
	"railguard/services/stubapi"
)

// shell runs a line as a person would type it, with the tools of the stack on PATH and what `railguard dev`
// prints in the environment.
func shell(t *testing.T, line string, env ...string) (string, error) {
	t.Helper()
	bin, err := pgserver.FindBin()
	require.NoError(t, err)
	binary, err := cluster.Binary()
	require.NoError(t, err)
	temporal, err := local.FindTemporal(binary)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Env = append(os.Environ(), append(env,
		"PATH="+strings.Join([]string{bin, filepath.Dir(temporal), filepath.Dir(binary), os.Getenv("PATH")}, ":"),
		"PAYDB_URL="+shared.ReaderURL(), "TEMPORAL_ADDRESS="+shared.TemporalAddress(), "RAILGUARD_PROFILE="+shared.ProfilePath())...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String() + errOut.String(), err
}

func mustShell(t *testing.T, line string, env ...string) string {
	t.Helper()
	out, err := shell(t, line, env...)
	require.NoError(t, err, "%s\n%s", line, out)
	return out
}

// The lines that the documentation shows, as they stand there.
func TestTheShellLinesOfTheDocumentation(t *testing.T) {
	t.Parallel()
	account := shared.NewAccount(t, opening)
	payout := shared.NewPayout(t, account, amount)
	w := shared.NewWorker(t)
	queue := strings.NewReplacer("--task-queue payouts", "--task-queue "+w.TaskQueue, "<id>", payout)

	mustShell(t, queue.Replace(`temporal workflow start --task-queue payouts --type ExecutePayout --workflow-id payout-<id> --input '{"payoutId":"<id>"}'`))
	require.Contains(t, mustShell(t, queue.Replace(`temporal workflow result --workflow-id payout-<id>`)), "posted")
	require.Contains(t, mustShell(t, queue.Replace(`temporal workflow query --workflow-id payout-<id> --type status`)), "Ended")

	for line, want := range map[string]string{
		`psql "$PAYDB_URL" -c "select payout_id, state, attempt_count from payout order by created_at"`:         payout + ` \| POSTED +\| +1`,
		`psql "$PAYDB_URL" -c "select payout_id, outcome, presented_token from rail_submission"`:                payout + ` \| ACKED +\| +\d+`,
		`psql "$PAYDB_URL" -c "select account_id, balance_minor, fence from account"`:                           account + ` +\| +9900 \| +\d+`,
		`psql "$PAYDB_URL" -c "select id, fence from ledger_entry order by id"`:                                 `\d+ \| +\d+`,
		`psql "$PAYDB_URL" -c "select account_id, highest_token from rail_high_water"`:                          account + ` +\| +\d+`,
		`curl -s ` + w.URL() + `/actuator/prometheus | grep -E 'payout_execute_seconds_count'`:                  `payout_execute_seconds_count\{outcome="posted"\} 1`,
		`temporal workflow list --query 'PayoutId = "` + payout + `" AND PayoutState = "POSTED"' --output json`: `payout-` + payout,
	} {
		out := mustShell(t, line)
		require.Regexp(t, regexp.MustCompile(want), out, line)
	}
	for _, statement := range []string{"update payout set state = 'POSTED'", "delete from ledger_entry", "insert into rail_high_water values ('a', 1)"} {
		out, err := shell(t, `psql "$PAYDB_URL" -c "`+statement+`"`)
		require.Error(t, err)
		require.Contains(t, out, "permission denied")
	}
}

// Starting an id that runs answers with the running one, unless one asks for a refusal.
func TestStartingAPayoutThatRuns(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	w, payout, _ := interposed(t, "RAIL_PROXY_URL", "rail-proxy", "/submissions", func(string, string, *http.Request) faults.Verdict {
		close(arrived)
		<-goOn
		return faults.Pass
	}, "SUBMIT_BUDGET=15s")
	run := w.Begin(t, payout)
	<-arrived
	start := strings.NewReplacer("<queue>", w.TaskQueue, "<id>", payout).Replace(
		`temporal workflow start --task-queue <queue> --type ExecutePayout --workflow-id payout-<id> --input '{"payoutId":"<id>"}' --output json `)
	refused, err := shell(t, start+"--fail-existing")
	again, errAgain := shell(t, start)
	close(goOn)
	require.Error(t, err, refused)
	require.NoError(t, errAgain, again)
	require.Contains(t, again, run.GetRunID())
	verify(t, w, shared.Await(t, run), postedOnce)
}

// An ambiguous payout is executed again from the command line, twice, and through Temporal's API: nothing moves.
func TestAmbiguousStaysAmbiguousFromTheCommandLine(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount, stubapi.Fault{Kind: stubapi.DropAfter})
	w := shared.NewWorker(t)
	verify(t, w, w.Execute(t, payout), want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous", submissions: "TIMEOUT", requests: 1, reserved: amount})
	before := shared.Evidence(t, payout)
	for range 2 {
		// The exit code says that it did not end as one would wish.
		out, err := shell(t, "railguard payout run "+payout, "TASK_QUEUE="+w.TaskQueue)
		require.Error(t, err)
		require.Contains(t, out, "RAIL_AMBIGUOUS")
	}
	require.Equal(t, before, shared.Evidence(t, payout))
}

// A payout lives its whole life under `railguard` alone.
func TestTheCommandLineFromAccountToCheck(t *testing.T) {
	t.Parallel()
	w := shared.NewWorker(t)
	account := "acme-" + uuid.NewString()[:8]
	mustShell(t, "railguard account create "+account+" --currency EUR --opening 100.00")
	created := mustShell(t, "railguard payout create --external-ref "+uuid.NewString()+" --account "+account+" --amount 12.50 --currency EUR --beneficiary iban-1 --output json")
	var p struct {
		PayoutID string `json:"payoutId"`
	}
	require.NoError(t, json.Unmarshal([]byte(created), &p), created)
	require.Contains(t, mustShell(t, "railguard payout run "+p.PayoutID, "TASK_QUEUE="+w.TaskQueue), "posted")
	require.Contains(t, mustShell(t, "railguard payout get "+p.PayoutID), "POSTED")
	require.Contains(t, mustShell(t, "railguard account get "+account), "87.50")
	require.Contains(t, mustShell(t, "railguard lock get payout:"+account), "held        no")
}

var (
	uuidInLabel  = regexp.MustCompile(`\{[^}]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}[^}]*\}`)
	rawPathLabel = regexp.MustCompile(`route="[^"]*(acc-|payout:)[^"]*"`)
)

// No label carries a key, an account, a payout, a token or a raw path; every closed set of labels exists from the first scrape.
func TestMetricsOfEveryProcess(t *testing.T) {
	t.Parallel()
	account := shared.NewAccount(t, opening)
	payout := shared.NewPayout(t, account, amount)
	w := shared.NewWorker(t)
	require.Equal(t, "posted", w.Execute(t, payout).Outcome)
	for process, series := range map[string][]string{
		shared.URL("lock-server"): {
			`lock_acquire_seconds_count{backend="pg",outcome="granted"}`, `lock_acquire_seconds_count{backend="pg",outcome="contended"}`,
			`lock_acquire_seconds_count{backend="pg",outcome="error"}`, `lock_lease_expired_total{backend="pg"}`, `lock_held_current{backend="pg"}`,
			`lock_waiters_current{backend="pg"}`, `lock_revoked_total{backend="pg"}`},
		shared.URL("payment-resource"): {`lock_fenced_out_total{resource="account"}`, `lock_fenced_out_total{resource="ledger"}`, `fencing_enabled{guard="account"}`},
		shared.URL("rail-proxy"): {
			`lock_fenced_out_total{resource="rail"}`, `fencing_enabled{guard="rail"}`, `rail_duplicate_attempted_total`, `rail_submission_total{outcome="acked"}`,
			`rail_submission_total{outcome="rejected"}`, `rail_submission_total{outcome="timeout"}`, `rail_submission_total{outcome="fenced"}`, `rail_submission_total{outcome="unsent"}`},
		w.URL(): {
			`lock_session_lost_total`, `payout_execute_seconds_count{outcome="posted"}`, `payout_execute_seconds_count{outcome="failed"}`,
			`payout_execute_seconds_count{outcome="abandoned"}`, `payout_execute_seconds_count{outcome="ambiguous"}`},
	} {
		metrics := cluster.Metrics(t, process)
		for _, name := range series {
			require.Contains(t, metrics, name)
		}
		for name := range metrics {
			require.NotRegexp(t, uuidInLabel, name)
			require.NotRegexp(t, rawPathLabel, name)
			require.NotContains(t, name, account)
		}
	}
}
