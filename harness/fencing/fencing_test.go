//go:build fencing

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/harness/cluster"
	"railguard/harness/fencing/evidence"
)

// asProgram makes the test binary the program itself, for tests that must kill it.
const asProgram = "FENCING_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	code := m.Run()
	cluster.RemoveBinary()
	os.Exit(code)
}

// outcome is what one experiment left behind.
type outcome struct {
	exit          int
	out, progress string
	dir           string // of the capture; "" when there is none
	run           evidence.Run
}

// try makes an experiment in this process, with the short timing.
func try(t *testing.T, spoil interference, args ...string) outcome {
	t.Helper()
	binary, err := cluster.Binary()
	require.NoError(t, err)
	captures := t.TempDir()
	var out, progress bytes.Buffer
	o := outcome{exit: run(t.Context(), options{interference: spoil}, append([]string{"--short", "--binary", binary, "--out", captures}, args...), &out, &progress)}
	o.out, o.progress = out.String(), progress.String()
	t.Logf("%v: exit code %d\n%s\n%s", args, o.exit, o.progress, o.out)
	all, err := filepath.Glob(filepath.Join(captures, "*"))
	require.NoError(t, err)
	if len(all) == 0 {
		return o
	}
	require.Len(t, all, 1)
	o.dir = all[0]
	data, err := os.ReadFile(filepath.Join(o.dir, "verdict.json"))
	if os.IsNotExist(err) {
		return o
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &o.run))
	return o
}

// codes are the codes of every diagnosis of every attempt.
func (o outcome) codes() []evidence.Code {
	var all []evidence.Code
	for _, r := range o.run.Repetitions {
		for _, a := range r.Attempts {
			for _, d := range a.Diagnoses {
				all = append(all, d.Code)
			}
		}
	}
	return all
}

// read reads a file of the capture.
func (o outcome) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.dir, name))
	require.NoError(t, err)
	return string(data)
}

// Each position of the two switches shows what it must show; the expectations stand here once more, as numbers, so that
// neither the table nor the judge can bend them.
func TestEveryModeShowsWhatItMust(t *testing.T) {
	for mode, want := range map[string]struct {
		requests, pairs       int
		balance, sum          int64
		staleLast             bool
		rail, account, ledger int
		duplicates            int
		outcomeA              string
		atRail, atAccount     string // how A's steps were answered
	}{
		"off":          {2, 2, 9_900, 9_800, true, 0, 0, 0, 0, "posted", "acked", ""},
		"rail-only":    {1, 1, 9_900, 9_900, false, 1, 0, 0, 1, "fenced", "fencedOut", "accepted"},
		"account-only": {2, 1, 9_900, 9_900, false, 0, 0, 1, 0, "fenced", "acked", ""},
		"on":           {1, 1, 9_900, 9_900, false, 1, 1, 0, 1, "fenced", "fencedOut", "fencedOut"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := try(t, interference{}, "--fencing", mode, "--repeat", "2", "--parallel", "2", "--seed", "7")
			require.Equal(t, exitShown, o.exit)
			require.True(t, o.run.Summary.Passed)
			require.Contains(t, o.out, fmt.Sprintf("2/2 %s: identical; inconclusive %d\n", mode, o.run.Summary.Inconclusive))
			require.Equal(t, want.account == 1 || want.ledger == 1, o.run.GuardsBefore.PaymentResource.FencingEnabled)
			require.Equal(t, want.rail == 1, o.run.GuardsAfter.RailProxy.FencingEnabled)

			payouts := map[string]bool{}
			for _, r := range o.run.Repetitions {
				f := r.Last().Facts
				payouts[f.PayoutID] = true
				require.Len(t, f.Requests, want.requests)
				require.Len(t, f.Ledger, 2*want.pairs)
				require.Equal(t, want.balance, f.After.BalanceMinor)
				require.Equal(t, want.sum, f.After.SumMinor)
				require.Greater(t, f.B.Token, f.A.Token)
				require.Equal(t, want.staleLast, f.After.Fence == f.A.Token)
				refusals := map[string]int{}
				for _, refusal := range f.Refusals {
					refusals[refusal.Resource]++
					require.Equal(t, f.A.Token, refusal.Presented)
					require.Equal(t, f.B.Token, refusal.Highest)
				}
				require.Equal(t, want.rail, refusals["rail"])
				require.Equal(t, want.account, refusals["account"])
				require.Equal(t, want.ledger, refusals["ledger"])
				require.Len(t, f.Duplicates, want.duplicates)
				require.Equal(t, want.outcomeA, f.A.Outcome)
				require.Equal(t, "posted", f.B.Outcome)
				require.Equal(t, want.atRail, f.A.Step("SubmitToRail").Outcome)
				if want.atAccount != "" {
					require.Equal(t, want.atAccount, f.A.Step("AbandonClaim").Outcome)
				}

				// The order of things: past the check, stopped, lapsed, B begins and ends, woken, A ends.
				require.Equal(t, "T", f.Freeze.State)
				require.Equal(t, f.A.ProcessID, f.Freeze.ProcessID)
				require.NotEqual(t, f.A.ProcessID, f.B.ProcessID)
				require.Equal(t, f.A.Token, f.WindowToken)
				require.GreaterOrEqual(t, len(f.Leases), 2)
				for _, pair := range [][2]int64{
					{f.WindowOpenedAt.UnixNano(), f.Freeze.StoppedAt.UnixNano()},
					{f.Freeze.StoppedAt.UnixNano(), f.Leases[0].ExpiresAt.UnixNano()},
					{f.Leases[0].ExpiresAt.UnixNano(), f.B.StartedAt.UnixNano()},
					{f.B.StartedAt.UnixNano(), f.B.EndedAt.UnixNano()},
					{f.B.EndedAt.UnixNano(), f.Freeze.ThawedAt.UnixNano()},
					{f.Freeze.ThawedAt.UnixNano(), f.A.EndedAt.UnixNano()},
				} {
					require.Less(t, pair[0], pair[1])
				}
			}
			require.Len(t, payouts, 2, "every repetition has a payout of its own")
			checkCapture(t, o)
		})
	}
}

// checkCapture checks that everything that a sceptic wants to read is there.
func checkCapture(t *testing.T, o outcome) {
	t.Helper()
	last := o.run.Repetitions[0].Last()
	f := last.Facts
	require.Contains(t, o.read(t, last.CaptureDir+"/a.log"), `"event":"submit_window_opened"`)
	require.Contains(t, o.read(t, last.CaptureDir+"/b.log"), f.PayoutID)
	require.Equal(t, len(f.Refusals)+len(f.Duplicates), strings.Count(o.read(t, last.CaptureDir+"/events.jsonl"), "\n"))
	require.Equal(t, len(f.Requests), strings.Count(o.read(t, last.CaptureDir+"/rail-requests.json"), `"receivedAt"`))
	require.Contains(t, o.read(t, last.CaptureDir+"/books.json"), fmt.Sprintf(`"sumMinor": %d`, f.After.SumMinor))
	for _, when := range []string{"before", "after"} {
		require.Contains(t, o.read(t, "metrics-payment-resource-"+when+".txt"), "lock_fenced_out_total")
		require.Contains(t, o.read(t, "metrics-rail-proxy-"+when+".txt"), "rail_duplicate_attempted_total")
	}
	require.Contains(t, o.read(t, "info.json"), fmt.Sprintf(`"fencingEnabled": %t`, o.run.GuardsBefore.RailProxy.FencingEnabled))
	require.Contains(t, o.read(t, "report.html"), f.PayoutID)
}

// Nothing stops, and neither guard is needed.
func TestWithoutAPauseTheLockSuffices(t *testing.T) {
	for _, mode := range []string{"off", "on"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			o := try(t, interference{}, "--fencing", mode, "--pause", "none")
			require.Equal(t, exitShown, o.exit)
			f := o.run.Repetitions[0].Last().Facts
			require.Nil(t, f.Freeze)
			require.Len(t, f.Requests, 1)
			require.Len(t, f.Ledger, 2)
			require.Equal(t, f.After.BalanceMinor, f.After.SumMinor)
			require.Empty(t, f.Refusals)
			require.Equal(t, "posted", f.A.Outcome)
			require.NotEmpty(t, f.C)
			require.Equal(t, "contended", f.C[0].Outcome)
			require.Zero(t, f.C[0].Token)
			require.True(t, f.C[0].EndedAt.Before(f.A.EndedAt))
			for _, lease := range f.Leases {
				if lease.Token == f.A.Token {
					require.True(t, lease.ExpiresAt.After(f.Requests[0].ReceivedAt), "A held its lease when it submitted")
				}
			}
		})
	}
}
