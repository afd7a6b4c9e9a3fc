package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/harness/fencing/evidence"
)

// sample is a run with the default timing: lease 5 s, work 20 s, tokens 7 and 8.
func sample(t *testing.T, m evidence.Mode) evidence.Run {
	t.Helper()
	read := func(name string) (run evidence.Run) {
		data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &run))
		return run
	}
	switch m {
	case evidence.RailOnly:
		run := read("on")
		f := facts(&run)
		f.Refusals = only(f.Refusals, "rail")
		return judged(run, m)
	case evidence.AccountOnly:
		run := read("off")
		f := facts(&run)
		stale := f.Ledger[2].CreatedAt
		f.Ledger, f.After.SumMinor, f.After.Fence, f.A.Outcome = f.Ledger[:2], f.After.BalanceMinor, f.B.Token, "fenced"
		f.A.Step("PostLedger").Outcome = "fencedOut"
		f.Refusals = []evidence.Refusal{{At: stale, Resource: "ledger", Presented: f.A.Token, Highest: f.B.Token}}
		return judged(run, m)
	}
	return read(string(m))
}

// judged is the run as the judge sees it in another mode.
func judged(run evidence.Run, m evidence.Mode) evidence.Run {
	run.Mode, run.Invariants, run.Counters = m, nil, nil
	for _, g := range []*evidence.Guards{&run.GuardsBefore, &run.GuardsAfter} {
		g.PaymentResource.FencingEnabled, g.RailProxy.FencingEnabled = m.AccountGuard(), m.RailGuard()
	}
	for i := range run.Repetitions {
		for j := range run.Repetitions[i].Attempts {
			a := &run.Repetitions[i].Attempts[j]
			for k := range a.Facts.Ledger {
				a.Facts.Ledger[k].Guarded = m.AccountGuard()
			}
			for k := range a.Facts.Submissions {
				a.Facts.Submissions[k].Guarded = m.RailGuard()
			}
			a.Cells, a.Verdict, a.Diagnoses = evidence.Judge(m, run.Pause, a.Facts)
		}
	}
	run.Summary = evidence.Summarize(run)
	return run
}

// control is a run in which nothing stopped and B asked three times.
func control(t *testing.T) evidence.Run {
	t.Helper()
	run := sample(t, evidence.Off)
	run.Pause, run.Mechanism = evidence.NoPause, evidence.NoPause.Mechanism()
	f := facts(&run)
	f.Freeze = nil
	f.Leases = f.Leases[:1]
	f.Leases[0].ExpiresAt, f.Leases[0].EndedAt, f.Leases[0].Renewals = f.A.EndedAt.Add(5*time.Second), f.A.EndedAt, 12
	f.Requests, f.Submissions, f.Ledger, f.Claims = f.Requests[1:], f.Submissions[1:], f.Ledger[2:], f.Claims[:1]
	f.After.SumMinor = f.After.BalanceMinor
	for i := range 3 {
		started := f.WindowOpenedAt.Add(time.Duration(1+6*i) * time.Second)
		ended := started.Add(5 * time.Second)
		f.C = append(f.C, evidence.Worker{ProcessID: f.B.ProcessID, Outcome: "contended", StartedAt: started, EndedAt: ended,
			Steps: []evidence.Step{{Name: "AcquireLock", ScheduledAt: started, EndedAt: &ended, Outcome: "contended", Reason: "LOCK_CONTENDED: another owner holds the lock"}}})
	}
	f.B = f.C[2]
	return judged(run, evidence.Off)
}

// repeated is the run with so many of its repetition.
func repeated(run evidence.Run, n int) evidence.Run {
	one := run.Repetitions[0]
	run.Repetitions = nil
	for i := range n {
		one.Number = i + 1
		run.Repetitions = append(run.Repetitions, one)
	}
	run.Summary = evidence.Summarize(run)
	return run
}

func facts(run *evidence.Run) *evidence.Facts { return &run.Repetitions[0].Attempts[0].Facts }

func only(all []evidence.Refusal, resource string) []evidence.Refusal {
	var kept []evidence.Refusal
	for _, r := range all {
		if r.Resource == resource {
			kept = append(kept, r)
		}
	}
	return kept
}
