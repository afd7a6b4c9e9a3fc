package zzchaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"railguard/deploy/local"
	"railguard/harness/cluster"
	"railguard/services/fencing"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/stubapi"
)

func TestChaos(t *testing.T) {
	defer cluster.RemoveBinary()
	c, err := cluster.Boot(context.Background(), local.Options{Env: map[string][]string{"rail-proxy": {"RAIL_TIMEOUT=1s"}, "rail-stub": {"RAIL_STUB_LATENCY=20ms"}}})
	require.NoError(t, err)
	defer func() { t.Log(c.Close()) }()
	ctx := context.Background()
	const queue = "chaos"
	ws := []*cluster.Worker{
		c.NewWorkerOn(t, queue, "SUBMIT_BUDGET=2s", "PAYOUT_LOCK_TTL=3500ms", "LOCK_SAFETY_MARGIN=0.2", "PAYOUT_LOCK_WAIT=300ms"),
		c.NewWorkerOn(t, queue, "SUBMIT_BUDGET=3s", "PAYOUT_LOCK_TTL=8s", "PAYOUT_LOCK_WAIT=100ms", "PAYOUT_WORK_DURATION=1200ms"),
	}
	kinds := []stubapi.Kind{stubapi.None, stubapi.None, stubapi.None, stubapi.None, stubapi.None, stubapi.Decline, stubapi.ServerError, stubapi.DropBefore, stubapi.DropAfter, stubapi.MalformedAck, stubapi.TruncatedAck, stubapi.DoubleAck, stubapi.UnexpectedStatus, stubapi.Hang}
	var payouts []string
	account := map[string]string{}
	for range 14 {
		a := c.NewAccount(t, 65)
		for range 7 {
			p := c.NewPayout(t, a, 10, stubapi.Fault{Kind: kinds[rand.IntN(len(kinds))]})
			payouts = append(payouts, p)
			account[p] = a
		}
	}
	outcomes := map[string]int{}
	var mu sync.Mutex
	note := func(s string) { mu.Lock(); outcomes[s]++; mu.Unlock() }
	begin := func(id, p string) client.WorkflowRun {
		run, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: queue,
			WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING},
			"ExecutePayout", cluster.Input{PayoutID: p})
		if err != nil {
			note("start error")
			return nil
		}
		return run
	}
	await := func(run client.WorkflowRun, d time.Duration) {
		wait, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		var r cluster.Result
		if err := run.Get(wait, &r); err != nil {
			s := err.Error()
			if len(s) > 160 {
				s = s[len(s)-160:]
			}
			note("ERR " + s)
			return
		}
		note(r.Outcome + "/" + r.State)
	}
	stop := time.Now().Add(75 * time.Second)
	var wg sync.WaitGroup
	for range 14 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				p := payouts[rand.IntN(len(payouts))]
				run := begin(fmt.Sprintf("payout-%s-%d", p, rand.IntN(3)), p)
				if run == nil {
					continue
				}
				if rand.IntN(6) == 0 {
					time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond)
					_ = c.Temporal.CancelWorkflow(ctx, run.GetID(), "")
				}
				if rand.IntN(8) == 0 {
					time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
					key := "payout:" + account[p]
					v, err := c.Revoker.Revoke(ctx, "op", key, lockapi.RevokeRequest{Operator: "op", Reason: "chaos chaos"})
					if err == nil && rand.IntN(2) == 0 {
						_, _ = c.RailOps.RaiseFence(ctx, "op", account[p], fencing.RaiseRequest{Floor: v.NewTokenFloor, Reason: "chaos"})
					} else if err == nil {
						_, _ = c.Operator.RaiseFence(ctx, "op", account[p], fencing.RaiseRequest{Floor: v.NewTokenFloor, Reason: "chaos"})
					}
				}
				await(run, 30*time.Second)
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(stop) {
			time.Sleep(4 * time.Second)
			switch n := rand.IntN(4); n {
			case 0, 1:
				name := []string{"rail-proxy", "payment-resource"}[n]
				p := c.Process(name)
				_ = p.Signal(syscall.SIGKILL)
				<-p.Done()
				if err := p.Restart(ctx); err != nil {
					t.Error(name, err)
				}
				note("killed " + name)
			case 2:
				w := ws[rand.IntN(len(ws))]
				_ = w.Signal(syscall.SIGSTOP)
				time.Sleep(3 * time.Second)
				_ = w.Signal(syscall.SIGCONT)
				note("froze")
			case 3:
				p := c.Process("lock-server")
				_ = p.Signal(syscall.SIGKILL)
				<-p.Done()
				if err := p.Restart(ctx); err != nil {
					t.Error(err)
				}
				note("killed lock")
			}
		}
	})
	wg.Wait()
	t.Log(outcomes)
	outcomes = map[string]int{}
	state := func(p string) string {
		var s string
		_ = c.Paydb.QueryRow(ctx, `select state from payout where payout_id=$1`, p).Scan(&s)
		return s
	}
	pass := func() int {
		left := 0
		var g sync.WaitGroup
		sem := make(chan struct{}, 10)
		for _, p := range payouts {
			switch state(p) {
			case "PENDING", "CLAIMED", "RAIL_ACKED":
				left++
				g.Go(func() {
					sem <- struct{}{}
					defer func() { <-sem }()
					if r := begin("payout-"+p+"-final", p); r != nil {
						await(r, 40*time.Second)
					}
				})
			case "RAIL_SUBMITTED":
				t.Error("RAIL_SUBMITTED is visible")
			}
		}
		g.Wait()
		return left
	}
	for i := 0; i < 8 && pass() > 0; i++ {
	}
	t.Log(outcomes)
	require.NoError(t, c.CheckInvariants(ctx))
	// resolve
	lockClient := c.Lock
	resolved := 0
	for _, p := range payouts {
		if state(p) != "RAIL_AMBIGUOUS" {
			continue
		}
		g, err := lockClient.AcquireWithin(ctx, "payout:"+account[p], "resolver-1", lockapi.AcquireRequest{TTLMillis: 5000, WaitMillis: 1000})
		if err != nil {
			t.Error(err)
			continue
		}
		tok := g.Grant.FencingToken
		_, e1 := c.Resolver.RaiseFence(ctx, "resolver-1", account[p], fencing.RaiseRequest{Floor: tok, Reason: "res"})
		_, e2 := c.RailOps.RaiseFence(ctx, "resolver-1", account[p], fencing.RaiseRequest{Floor: tok, Reason: "res"})
		require.NoError(t, e1)
		require.NoError(t, e2)
		transfers, err := c.Stub.Transfers(ctx, p)
		require.NoError(t, err)
		r := paymentapi.ResolutionRequest{Outcome: "ABSENT", Evidence: []byte(`{"a":1}`), Reason: "r"}
		if len(transfers.Transfers) > 0 {
			r.Outcome, r.RailReference = "SETTLED", transfers.Transfers[0].RailReference
		}
		_, err = c.Resolver.Resolve(ctx, tok, "resolver-1", p, r)
		if err != nil {
			t.Error(err)
		}
		_ = lockClient.Release(ctx, tok, "payout:"+account[p], "resolver-1")
		resolved++
	}
	for i := 0; i < 6 && pass() > 0; i++ {
	}
	t.Log("resolved", resolved, outcomes)
	require.NoError(t, c.CheckInvariants(ctx))
	all, err := c.Stub.Requests(ctx, "")
	require.NoError(t, err)
	moved, asked := map[string]int{}, map[string]int{}
	for _, r := range all.Requests {
		asked[r.ClientRef]++
		if r.MoneyMoved {
			moved[r.ClientRef]++
		}
	}
	final := map[string]int{}
	for _, p := range payouts {
		s := state(p)
		final[s]++
		if asked[p] > 1 {
			t.Errorf("%s asked %d", p, asked[p])
		}
		if (s == "POSTED") != (moved[p] == 1) {
			t.Errorf("%s is %s, moved %d", p, s, moved[p])
		}
	}
	t.Log(final)
	for _, a := range account {
		acc, _ := c.Intake.GetAccount(ctx, a)
		if acc.ReservedMinor != 0 {
			t.Errorf("%+v", acc)
		}
	}
}
