package e2e

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"railguard/harness/cluster"
	"railguard/harness/faults"
	"railguard/services/stubapi"
)

const patience = 60 * time.Second

var postedOnce = want{outcome: "posted", state: "POSTED", metric: "posted", submissions: "ACKED", requests: 1, posted: true}

// held is a rule that holds the first request whose path ends so until release is closed, and tells when it arrived.
func held(p *faults.Proxy, method, suffix string) (arrived <-chan struct{}, release chan<- struct{}) {
	came, goOn := make(chan struct{}), make(chan struct{})
	first := make(chan struct{}, 1)
	first <- struct{}{}
	p.Rule(on(suffix, func(r *http.Request) faults.Verdict {
		if r.Method == method {
			select {
			case <-first:
				close(came)
				<-goOn
				return faults.Verdict{DropRequest: true}
			default:
			}
		}
		return faults.Pass
	}))
	return came, goOn
}

func kill(t *testing.T, w *cluster.Worker) {
	t.Helper()
	require.NoError(t, w.Signal(syscall.SIGKILL))
	<-w.Done()
}

// scheduled counts how often an activity was scheduled in a run.
func scheduled(t *testing.T, run client.WorkflowRun, activity string) int {
	t.Helper()
	n := 0
	for _, event := range shared.History(t, run).Events {
		if a := event.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activity {
			n++
		}
	}
	return n
}

func TestWorkerKilledBeforeTheRailCall(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	p := proxyTo(t, shared.URL("payment-resource"))
	arrived, release := held(p, http.MethodPost, "/claim")
	w := shared.NewWorker(t, "PAYMENT_RESOURCE_URL="+p.URL)
	run := w.Begin(t, payout)
	<-arrived
	kill(t, w)
	close(release)
	survivor := shared.NewWorkerOn(t, w.TaskQueue)
	verify(t, survivor, shared.Await(t, run), postedOnce)
}

// The submission was on its way when its worker died. Nobody submits again: the outcome is read from
// the proxy's record.
func TestWorkerKilledDuringTheRailCall(t *testing.T) {
	t.Parallel()
	slow := int64(700)
	for name, c := range map[string]struct {
		fault    stubapi.Kind
		expected want
	}{
		"and the rail acknowledges": {stubapi.None, postedOnce},
		"and the rail declines":     {stubapi.Decline, want{outcome: "failed", state: "FAILED", metric: "failed", submissions: "REJECTED", requests: 1}},
		"and the rail hangs up":     {stubapi.DropAfter, want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous", submissions: "TIMEOUT", requests: 1, reserved: amount}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount, stubapi.Fault{Kind: c.fault, LatencyMillis: &slow})
			w := shared.NewWorker(t)
			run := w.Begin(t, payout)
			awaitRailRequest(t, payout)
			kill(t, w)
			survivor := shared.NewWorkerOn(t, w.TaskQueue)
			verify(t, survivor, shared.Await(t, run), c.expected)
			require.Equal(t, 1, scheduled(t, run, "SubmitToRail"))
			require.Equal(t, 1, scheduled(t, run, "LookupSubmission"))
		})
	}
}

func awaitRailRequest(t *testing.T, payout string) {
	t.Helper()
	require.Eventually(t, func() bool {
		requests, err := shared.Stub.Requests(t.Context(), payout)
		return err == nil && len(requests.Requests) == 1
	}, patience, 5*time.Millisecond)
}

func TestWorkerKilledAfterTheRailCall(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	p := proxyTo(t, shared.URL("payment-resource"))
	arrived, release := held(p, http.MethodPost, "/post")
	w := shared.NewWorker(t, "PAYMENT_RESOURCE_URL="+p.URL)
	run := w.Begin(t, payout)
	<-arrived
	kill(t, w)
	close(release)
	survivor := shared.NewWorkerOn(t, w.TaskQueue)
	verify(t, survivor, shared.Await(t, run), postedOnce)
}

// The submission never reached the proxy, and the worker that knew is dead: no record, yet the request
// may be in a frozen process. That is unknown.
func TestWorkerKilledWithItsRequestUnsent(t *testing.T) {
	t.Parallel()
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount)
	p := proxyTo(t, shared.URL("rail-proxy"))
	arrived, release := held(p, http.MethodPost, "/submissions")
	w := shared.NewWorker(t, "RAIL_PROXY_URL="+p.URL)
	run := w.Begin(t, payout)
	<-arrived
	kill(t, w)
	close(release)
	survivor := shared.NewWorkerOn(t, w.TaskQueue)
	verify(t, survivor, shared.Await(t, run), want{outcome: "ambiguous", state: "RAIL_AMBIGUOUS", metric: "ambiguous", reserved: amount})
}

func TestWorkerToldToStopDuringTheRailCallDrains(t *testing.T) {
	t.Parallel()
	slow := int64(800)
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount, stubapi.Fault{Kind: stubapi.None, LatencyMillis: &slow})
	w := shared.NewWorker(t)
	run := w.Begin(t, payout)
	awaitRailRequest(t, payout)
	require.NoError(t, w.Signal(syscall.SIGTERM))
	<-w.Done()
	require.NoError(t, w.Err(), "a drained worker ends with code 0")
	survivor := shared.NewWorkerOn(t, w.TaskQueue)
	verify(t, survivor, shared.Await(t, run), postedOnce)
	for _, event := range shared.History(t, run).Events {
		require.NotEqual(t, enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, event.GetEventType(), "the result of the submission arrived")
	}
	require.Zero(t, scheduled(t, run, "LookupSubmission"))
}

// A caller that hangs up in the middle does not cancel what the proxy forwarded.
func TestCallerHangsUpDuringTheSubmission(t *testing.T) {
	t.Parallel()
	slow := int64(700)
	payout := shared.NewPayout(t, shared.NewAccount(t, opening), amount, stubapi.Fault{Kind: stubapi.None, LatencyMillis: &slow})
	w := shared.NewWorker(t)
	run := w.Begin(t, payout)
	awaitRailRequest(t, payout)
	kill(t, w)
	require.Eventually(t, func() bool {
		e := shared.Evidence(t, payout)
		return len(e.Submissions) == 1 && e.Submissions[0].Outcome == "ACKED"
	}, patience, 10*time.Millisecond)
	survivor := shared.NewWorkerOn(t, w.TaskQueue)
	verify(t, survivor, shared.Await(t, run), postedOnce)
}
