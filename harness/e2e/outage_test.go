package e2e

import (
	"context"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
	"railguard/harness/cluster"
	"railguard/harness/faults"
	"railguard/services/stubapi"
)

// Each part is killed in turn under a payout, in a system of this test's own. Everything fails closed, and what has moved is
// brought to its end.
func TestOutages(t *testing.T) {
	t.Parallel()
	c, err := boot(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	restart := func(t *testing.T, name string) { require.NoError(t, c.Process(name).Restart(t.Context())) }
	end := func(t *testing.T, name string) {
		require.NoError(t, c.Process(name).Signal(syscall.SIGKILL))
		<-c.Process(name).Done()
	}

	t.Run("the lock's database is gone: nothing starts", func(t *testing.T) {
		payout := c.NewPayout(t, c.NewAccount(t, opening), amount)
		w := c.NewWorker(t)
		require.NoError(t, c.LockDB().Signal(syscall.SIGKILL))
		<-c.LockDB().Done()
		verify(t, w, w.Execute(t, payout), want{outcome: "contended", state: "PENDING"})
		require.NoError(t, c.LockDB().Restart(t.Context()))
		awaitReady(t, c, local.LockServer)
		verify(t, w, w.Execute(t, payout), postedOnce)
	})

	t.Run("the accounts' database is gone after the rail said yes: the posting is awaited", func(t *testing.T) {
		payout := c.NewPayout(t, c.NewAccount(t, opening), amount)
		p, err := faults.NewProxy(c.URL(local.PaymentResource))
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		arrived, release := held(p, http.MethodPost, "/post")
		w := c.NewWorker(t, "PAYMENT_RESOURCE_URL="+p.URL)
		run := w.Begin(t, payout)
		<-arrived
		require.NoError(t, c.PayDB().Signal(syscall.SIGKILL))
		<-c.PayDB().Done()
		close(release)
		require.Eventually(t, func() bool { return count(p, "/post") > 1 }, patience, 10e6)
		require.NoError(t, c.PayDB().Restart(t.Context()))
		awaitReady(t, c, local.PaymentResource)
		verify(t, w, c.Await(t, run), postedOnce)
	})

	t.Run("the rail is gone: nothing was presented, and a later pass submits", func(t *testing.T) {
		payout := c.NewPayout(t, c.NewAccount(t, opening), amount)
		w := c.NewWorker(t)
		end(t, local.RailStub)
		r := w.Execute(t, payout)
		restart(t, local.RailStub)
		verify(t, w, r, want{outcome: "abandoned", state: "CLAIMED", metric: "abandoned", submissions: "UNSENT", reserved: amount})
		later := c.NewWorker(t)
		verify(t, later, later.Execute(t, payout), want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "UNSENT ACKED", requests: 1, posted: true})
	})

	t.Run("the proxy dies between intent and outcome: unknown for good", func(t *testing.T) {
		slow := int64(800)
		payout := c.NewPayout(t, c.NewAccount(t, opening), amount, stubapi.Fault{Kind: stubapi.None, LatencyMillis: &slow})
		w := c.NewWorker(t)
		run := w.Begin(t, payout)
		require.Eventually(t, func() bool {
			requests, err := c.Stub.Requests(t.Context(), payout)
			return err == nil && len(requests.Requests) == 1
		}, patience, 5e6)
		end(t, local.RailProxy)
		r := c.Await(t, run)
		verify(t, w, r, want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous", submissions: "", requests: 1, reserved: amount})
		restart(t, local.RailProxy)
	})

	t.Run("each service restarts under payouts", func(t *testing.T) {
		w := c.NewWorker(t)
		for _, name := range []string{local.LockServer, local.PaymentResource, local.RailProxy} {
			end(t, name)
			restart(t, name)
			r := w.Execute(t, c.NewPayout(t, c.NewAccount(t, opening), amount))
			require.Equal(t, "posted", r.Outcome, name)
		}
	})

	require.NoError(t, c.CheckInvariants(t.Context()))
}

func awaitReady(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL(name)+"/readyz", http.NoBody)
		if err != nil {
			return false
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, patience, 20e6)
}
