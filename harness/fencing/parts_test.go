package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local/child"
	"railguard/harness/fencing/evidence"
	"railguard/services/fencing"
	"railguard/services/lockapi"
)

func TestOnlyTheWorkerOfTheQueueIsIdentified(t *testing.T) {
	t.Parallel()
	// A program that waits: its command line and environment are what counts.
	waiting := func(argument, queue string) *child.Process {
		cmd := exec.Command("cat")
		cmd.Args = []string{"railguard", argument}
		cmd.Env = []string{"TASK_QUEUE=" + queue}
		cmd.Dir = t.TempDir()
		require.NoError(t, syscall.Mkfifo(filepath.Join(cmd.Dir, argument), 0o600)) // nobody will ever write to it
		p, err := child.Start(cmd, syscall.SIGKILL)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Stop(syscall.SIGKILL, 10*time.Second)) })
		return p
	}
	worker := waiting("worker", "mine")
	require.NoError(t, identify(worker, "mine"))
	require.ErrorContains(t, identify(worker, "min"), "not the one of task queue min")
	require.ErrorContains(t, identify(waiting("lock-server", "mine"), "mine"), `its command line is "railguard lock-server"`)

	require.NoError(t, freeze(t.Context(), worker))
	state, err := processState(worker.PID())
	require.NoError(t, err)
	require.Equal(t, "T", state)
	require.NoError(t, thaw(t.Context(), worker))
	state, err = processState(worker.PID())
	require.NoError(t, err)
	require.NotEqual(t, "T", state)
}

func TestTheLeasesThatWereSeen(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) *time.Time { when := start.Add(time.Duration(seconds) * time.Second); return &when }
	var w leaseWatch
	held := func(token fencing.Token, acquired, expires int) *lockapi.Lock {
		return &lockapi.Lock{Held: true, FencingToken: token, AcquiredAt: at(acquired), ExpiresAt: at(expires)}
	}
	seen := func(token int64, wantHeld, wantOver bool) {
		t.Helper()
		held, over := w.seen(token)
		require.Equal(t, []bool{wantHeld, wantOver}, []bool{held, over})
	}
	w.saw(&lockapi.Lock{}, *at(0))
	seen(7, false, false)
	w.saw(held(7, 1, 6), *at(1))
	w.saw(held(7, 1, 6), *at(2))
	w.saw(held(7, 1, 8), *at(3))
	seen(7, true, false)
	w.saw(&lockapi.Lock{FencingToken: 7}, *at(9)) // free: the token is that of the last grant
	seen(7, true, true)
	w.saw(held(8, 10, 15), *at(10))
	w.saw(held(9, 11, 16), *at(11))
	require.Equal(t, []evidence.Lease{
		{Token: 7, AcquiredAt: *at(1), ExpiresAt: *at(8), Renewals: 1, EndedAt: *at(9)},
		{Token: 8, AcquiredAt: *at(10), ExpiresAt: *at(15), EndedAt: *at(11)},
		{Token: 9, AcquiredAt: *at(11), ExpiresAt: *at(16)},
	}, w.leases)
}

func TestTheEventsOfALog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte(`{"event":"fenced_out","presentedToken":1}`+"\n"), 0o600))
	log, err := openLogAtEnd(path)
	require.NoError(t, err)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"event":"fenced_out","presentedToken":2,"highestToken":3,"resourceId":"acme","resource":"rail"}` + "\n" +
		"panic: not JSON\n" + `{"event":"other"}` + "\n" + `{"event":"fenced_out","presented`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	events, err := log.events("fenced_out", "rail_ambiguous")
	require.NoError(t, err)
	require.Len(t, events, 1, "neither what was before, nor another kind, nor half a line")
	require.Equal(t, int64(2), events[0].PresentedToken)
	require.Equal(t, "rail", events[0].Resource)

	events, err = (&logFile{path: filepath.Join(t.TempDir(), "none")}).events("fenced_out")
	require.NoError(t, err, "a process that has not logged yet")
	require.Empty(t, events)
}

func TestTheCounters(t *testing.T) {
	t.Parallel()
	account := func(account, ledger string) []byte {
		return []byte("# HELP x y\nlock_fenced_out_total{resource=\"account\"} " + account + "\nlock_fenced_out_total{resource=\"ledger\"} " + ledger + "\n")
	}
	rail := []byte("lock_fenced_out_total{resource=\"rail\"} 4\nrail_duplicate_attempted_total 1e+03\n")
	facts := evidence.Facts{Refusals: []evidence.Refusal{{Resource: "account"}, {Resource: "rail"}}, Duplicates: []evidence.Duplicate{{}, {}}}
	repetitions := []evidence.Repetition{{Attempts: []evidence.Attempt{{Facts: facts}, {Facts: facts}}}}
	got, err := counters(snapshot{account("1", "0"), rail}, snapshot{account("3", "0"), rail}, repetitions)
	require.NoError(t, err)
	require.Equal(t, []evidence.Counter{
		{Name: `lock_fenced_out_total{resource="account"}`, Before: 1, After: 3, Events: 2},
		{Name: `lock_fenced_out_total{resource="ledger"}`},
		{Name: `lock_fenced_out_total{resource="rail"}`, Before: 4, After: 4, Events: 2},
		{Name: `rail_duplicate_attempted_total`, Before: 1000, After: 1000, Events: 4},
	}, got)

	_, err = counters(snapshot{account("1", "0"), nil}, snapshot{account("1", "0"), rail}, nil)
	require.ErrorContains(t, err, `there is no lock_fenced_out_total{resource="rail"}`, "an absent counter is not a counter at zero")
}

func TestACaptureHasAFolderOfItsOwn(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "out")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, want := range []string{"20260102T030405Z-on", "20260102T030405Z-on.2", "20260102T030405Z-on.3"} {
		dir, err := newCapture(root, evidence.On, evidence.Stop, now)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(root, want), dir)
	}
	dir, err := newCapture(root, evidence.On, evidence.NoPause, now)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "20260102T030405Z-on-no-pause"), dir)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = newCapture(file, evidence.On, evidence.Stop, now)
	require.ErrorContains(t, err, "--out")
}

// The same seed makes the same pauses, every attempt another one, all of them about what was asked for.
func TestTheOffsetsComeFromTheSeed(t *testing.T) {
	t.Parallel()
	a, b := &series{options: options{seed: 1, pauseOffset: time.Second}}, &series{options: options{seed: 2, pauseOffset: time.Second}}
	seen := map[time.Duration]bool{}
	for repetition := range 20 {
		for try := range 3 {
			offset := a.offset(repetition, try)
			require.Equal(t, offset, a.offset(repetition, try))
			require.NotEqual(t, offset, b.offset(repetition, try))
			require.InDelta(t, 1, offset.Seconds(), 0.2)
			seen[offset] = true
		}
	}
	require.Len(t, seen, 60)
}
