package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"railguard/deploy/local"
	"railguard/harness/cluster"
	"railguard/services/stubapi"
)

// The two counters of incidents stay at zero while payouts contend for an account, end ambiguous, and are asked
// for again. In a system of its own, because a counter is the whole system's.
func TestContentionAndAmbiguityAreNoIncidents(t *testing.T) {
	t.Parallel()
	c, err := boot(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })

	twoWorkersOnOneAccount(t, c)
	ambiguousWhoeverAsksAgain(t, c)

	incidents := 0
	for _, guard := range []string{local.PaymentResource, local.RailProxy} {
		for series, value := range cluster.Metrics(t, c.URL(guard)) {
			if strings.HasPrefix(series, "lock_fenced_out_total") || series == "rail_duplicate_attempted_total" {
				incidents++
				require.Zero(t, value, series)
			}
		}
	}
	require.Equal(t, 4, incidents, "account, ledger, rail, duplicates")
	require.NoError(t, c.CheckInvariants(t.Context()))
}

func ambiguousWhoeverAsksAgain(t *testing.T, c *cluster.Cluster) {
	payout := c.NewPayout(t, c.NewAccount(t, opening), amount, stubapi.Fault{Kind: stubapi.DropAfter})
	w := c.NewWorker(t)
	ambiguous := want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous", submissions: "TIMEOUT", requests: 1, reserved: amount}
	before := verify(t, w, w.Execute(t, payout), ambiguous)
	for _, workflowID := range []string{"payout-" + payout, "again-" + payout} {
		other := c.NewWorker(t)
		refused := ambiguous
		refused.outcome, refused.metric = "contended", ""
		after := verify(t, other, c.Await(t, other.BeginAs(t, workflowID, payout)), refused)
		require.Equal(t, before.Submissions, after.Submissions)
		require.Equal(t, before.Transitions, after.Transitions)
	}
}

// Two workers, one account, twenty payouts: each is posted once and nobody writes under a stale token.
func twoWorkersOnOneAccount(t *testing.T, c *cluster.Cluster) {
	const payouts = 20
	account := c.NewAccount(t, opening)
	first := c.NewWorker(t)
	second := c.NewWorkerOn(t, first.TaskQueue)
	ids := make([]string, payouts)
	for i := range ids {
		ids[i] = c.NewPayout(t, account, amount)
	}
	var mu sync.Mutex
	posted := make(map[string]int)
	var group errgroup.Group
	group.SetLimit(4)
	for _, id := range ids {
		group.Go(func() error {
			// Contended is an answer, not a failure: a later pass tries again.
			for pass := range 50 {
				run, err := c.Temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
					ID: fmt.Sprintf("payout-%s", id), TaskQueue: first.TaskQueue,
					WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
				}, "ExecutePayout", cluster.Input{PayoutID: id})
				if err != nil {
					return err
				}
				var r cluster.Result
				if err := run.Get(t.Context(), &r); err != nil {
					return err
				}
				if r.Outcome == "posted" {
					mu.Lock()
					posted[id]++
					mu.Unlock()
					return nil
				}
				if r.Outcome != "contended" {
					return fmt.Errorf("pass %d of payout %s ended %s: %s", pass, id, r.Outcome, r.Reason)
				}
			}
			return fmt.Errorf("payout %s was contended fifty times", id)
		})
	}
	require.NoError(t, group.Wait())
	require.Len(t, posted, payouts)
	for _, id := range ids {
		e := c.Evidence(t, id)
		require.Equal(t, "POSTED", e.State)
		require.Len(t, e.Entries, 2)
		require.Len(t, e.Requests, 1)
		require.Len(t, e.Submissions, 1, "no fenced submission")
		require.Equal(t, opening-payouts*amount, e.Account.BalanceMinor)
		require.Equal(t, e.Account.BalanceMinor, e.Account.LedgerSumMinor)
		require.Zero(t, e.Account.ReservedMinor)
	}
	require.Equal(t, float64(payouts), first.Executed(t)["posted"]+second.Executed(t)["posted"])
}
