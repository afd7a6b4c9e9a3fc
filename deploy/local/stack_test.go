package local_test

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"railguard/deploy/local"
	"railguard/deploy/local/profile"
	"railguard/services/httpclient"
	"railguard/services/paymentapi"
	"railguard/services/postgres"
)

// result is what the workflow answers, as its JSON says.
type result struct {
	Outcome string `json:"outcome"`
	State   string `json:"state"`
}

// payOut makes an account and a payout and executes it on a task queue.
func payOut(t *testing.T, stack *local.Stack, taskQueue string) (string, result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	payments, err := paymentapi.NewClient(stack.URL(local.PaymentResource), httpclient.Identity{Bearer: stack.Bearer("intake")})
	require.NoError(t, err)
	account := "acc-" + uuid.NewString()
	_, err = payments.CreateAccount(ctx, "test", paymentapi.CreateAccountRequest{AccountID: account, Currency: "EUR", OpeningMinor: 10_000})
	require.NoError(t, err)
	payout, err := payments.CreatePayout(ctx, "test", paymentapi.CreatePayoutRequest{
		ExternalRef: uuid.NewString(), AccountID: account, AmountMinor: 100, Currency: "EUR", BeneficiaryRef: "b-1"})
	require.NoError(t, err)
	temporal, err := client.DialContext(ctx, client.Options{HostPort: stack.TemporalAddress()})
	require.NoError(t, err)
	defer temporal.Close()
	run, err := temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "payout-" + payout.PayoutID, TaskQueue: taskQueue},
		"ExecutePayout", map[string]string{"payoutId": payout.PayoutID})
	require.NoError(t, err)
	var r result
	require.NoError(t, run.Get(ctx, &r))
	return payout.PayoutID, r
}

func TestAStackPaysOut(t *testing.T) {
	t.Parallel()
	stack := start(t, local.Options{})
	payout, r := payOut(t, stack, local.TaskQueue)
	require.Equal(t, result{"posted", "POSTED"}, r)
	require.Equal(t, "POSTED", query(t, stack.ReaderURL(), "SELECT state FROM payout"))
	require.Equal(t, "2", query(t, stack.ReaderURL(), "SELECT count(*) FROM ledger_entry WHERE payout_id = '"+payout+"'"))
	require.Equal(t, "ACKED", query(t, stack.ReaderURL(), "SELECT outcome FROM rail_submission"))
	answer, err := http.Get(stack.UIURL())
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)

	t.Run("the database role that is given to people only reads", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), stack.ReaderURL())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(context.Background())) }()
		_, err = conn.Exec(t.Context(), "DELETE FROM rail_submission")
		code, _ := postgres.SQLState(err)
		require.Equal(t, "42501", code)
	})
	t.Run("no secret is in a command line or in a file that others may read", func(t *testing.T) {
		var secrets []string
		require.NoError(t, filepath.WalkDir(filepath.Join(stack.DataDir(), "secrets"), func(path string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			if entry.IsDir() {
				return nil
			}
			info, err := entry.Info()
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
			if filepath.Ext(path) != ".json" {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				secrets = append(secrets, string(data))
			}
			return nil
		}))
		require.Len(t, secrets, 7+4)
		for _, pid := range pids(stack) {
			for _, secret := range secrets {
				require.NotContains(t, commandLine(pid), secret)
			}
		}
		hashes, err := os.ReadFile(filepath.Join(stack.DataDir(), "secrets", "tokens.json"))
		require.NoError(t, err)
		require.NotContains(t, string(hashes), stack.Bearer("executor"))
	})
	t.Run("the profile says where everything is", func(t *testing.T) {
		p, err := profile.LoadFile(stack.ProfilePath())
		require.NoError(t, err)
		require.Equal(t, stack.Profile(), p)
		require.Equal(t, stack.URL(local.PaymentResource), p.PaymentResource)
		bearer, err := os.ReadFile(p.Tokens["operator2"])
		require.NoError(t, err)
		require.Equal(t, stack.Bearer("operator2"), string(bearer))
	})
	stopAndExpectNothing(t, stack)
}

func TestProcessesCanBeKilledAndRestarted(t *testing.T) {
	t.Parallel()
	stack := start(t, local.Options{Headless: true, NoWorker: true})
	require.Nil(t, stack.Process(local.Worker))
	worker, err := stack.StartWorker(t.Context(), "worker-a", "TASK_QUEUE=queue-a")
	require.NoError(t, err)
	_, err = stack.StartWorker(t.Context(), "worker-a")
	require.ErrorContains(t, err, "worker-a")

	lockServer := stack.Process(local.LockServer)
	killed, url := lockServer.PID(), stack.URL(local.LockServer)
	require.NoError(t, lockServer.Signal(syscall.SIGKILL))
	select {
	case <-lockServer.Done():
	case <-time.After(patience):
		require.Fail(t, "the process outlived SIGKILL")
	}
	require.NoError(t, lockServer.Restart(t.Context()))
	require.NotEqual(t, killed, lockServer.PID())
	require.Equal(t, url, stack.URL(local.LockServer))
	require.NoError(t, stack.PayDB().Signal(syscall.SIGKILL))
	require.NoError(t, stack.PayDB().Restart(t.Context()))
	// Their pools may hold connections to the killed server, which the next request would be the first to notice.
	for _, name := range []string{local.PaymentResource, local.RailProxy} {
		require.NoError(t, stack.Process(name).Restart(t.Context()))
	}
	require.NoError(t, worker.Restart(t.Context()), "one that runs is stopped first")

	_, r := payOut(t, stack, "queue-a")
	require.Equal(t, result{"posted", "POSTED"}, r)

	// A worker that is frozen when the stack stops must not hold it up, nor outlive it.
	require.NoError(t, worker.Signal(syscall.SIGSTOP))
	frozen := worker.PID()
	stopAndExpectNothing(t, stack)
	require.False(t, alive(frozen))
}

func TestAProcessThatCannotStartIsShownWithItsLog(t *testing.T) {
	t.Parallel()
	_, err := local.Start(t.Context(), local.Options{Binary: binary, Volatile: true, Headless: true,
		Env: map[string][]string{local.LockServer: {"LOCK_BACKEND=paper"}}})
	require.ErrorContains(t, err, "lock-server ended at start")
	require.ErrorContains(t, err, "LOCK_BACKEND")

	_, err = local.Start(t.Context(), local.Options{Binary: binary, Env: map[string][]string{"lock": nil}})
	require.ErrorContains(t, err, `"lock"`)
}
