package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"railguard/services/apierr"
	"railguard/services/paymentapi"
	"railguard/workflows"
)

// runsInFlight bounds how many payouts one command starts and awaits at once.
const runsInFlight = 100

// payoutRun is one execution as the command reports it: the workflow's result, or why there is none.
type payoutRun struct {
	PayoutID                string `json:"payoutId"`
	WorkflowID              string `json:"workflowId"`
	RunID                   string `json:"runId,omitempty"`
	*workflows.PayoutResult        // nil while there is none
	Error                   string `json:"error,omitempty"`

	err error
}

// posted reports whether the payout's money moved and the ledger says so, by this run or by an earlier one.
func (r *payoutRun) posted() bool {
	return r.PayoutResult != nil && (r.Outcome == workflows.OutcomePosted || r.State == paymentapi.Posted)
}

func payoutRunCommand(t *target) *cobra.Command {
	var noWait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "run <payout>…",
		Short: "Execute payouts now, and wait for what becomes of them",
		Long: `Execute payouts now: start the workflow ExecutePayout of each, as payout-<id>, and wait for the outcomes. A payout
that is running already is awaited, not started twice. Interrupting the command does not stop a payout.

Outcomes: posted, failed (declined, or no funds), ambiguous (nobody knows: only a recorded resolution leads on),
fenced, abandoned and contended (no money moved; it may be run again).`,
		Example: "  railguard payout run 5f0c6b1e-3f0a-4c56-9d0b-0d6d3a0f5a11",
		Args:    cobra.MinimumNArgs(1),
	}
	output := outputFlag(c)
	c.Flags().BoolVar(&noWait, "no-wait", false, "only start them")
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait for all of them; 0 is without end")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPayoutIDs(args); err != nil {
			return err
		}
		ctx := cmd.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		temporal, queue, err := t.temporal(ctx)
		if err != nil {
			return err
		}
		defer temporal.Close()
		runs := execute(ctx, temporal, queue, args, !noWait, progress(cmd.ErrOrStderr(), "executing"))
		return errors.Join(output.print(cmd.OutOrStdout(), runs, runsTable(runs, noWait)), verdict(runs, noWait))
	}
	return c
}

// execute starts the payouts and, when it waits, awaits each; the runs are in the order of ids.
func execute(ctx context.Context, c client.Client, queue string, ids []string, wait bool, show func(done, total int)) []payoutRun {
	runs := make([]payoutRun, len(ids))
	var group errgroup.Group
	group.SetLimit(runsInFlight)
	var mu sync.Mutex
	done := 0
	for i, id := range ids {
		group.Go(func() error {
			run := executeOne(ctx, c, queue, id, wait)
			mu.Lock()
			defer mu.Unlock()
			runs[i] = run
			done++
			if show != nil {
				show(done, len(ids))
			}
			return nil
		})
	}
	_ = group.Wait() // each run carries its own error
	return runs
}

func executeOne(ctx context.Context, c client.Client, queue, id string, wait bool) payoutRun {
	in := workflows.PayoutInput{PayoutID: id}
	r := payoutRun{PayoutID: id, WorkflowID: workflows.WorkflowID(id)}
	started, err := c.ExecuteWorkflow(ctx, workflows.StartOptions(queue, in), workflows.ExecutePayoutType, in)
	if err == nil {
		r.RunID = started.GetRunID()
		if wait {
			var result workflows.PayoutResult
			if err = started.Get(ctx, &result); err == nil {
				r.PayoutResult = &result
			}
		}
	}
	if err != nil {
		r.err = explain(err)
		r.Error = r.err.Error()
	}
	return r
}

// explain keeps of a failed run what its workflow said; a refusal's type is the code of the service that refused.
func explain(err error) error {
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		said := errors.New(application.Message())
		if application.Type() == workflows.ErrorBadInput { // such as a payout that does not exist
			return &inputError{said}
		}
		code := apierr.Code(application.Type())
		if _, known := apierr.Lookup(code); known && exitCodeOf(code) == ExitRefused {
			return &refusedError{said}
		}
		return said
	}
	var late *serviceerror.DeadlineExceeded
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) {
		return errors.New("no outcome yet; the payout goes on by itself")
	}
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) && strings.Contains(err.Error(), "search attribute") {
		return fmt.Errorf("%w: no worker has run there yet; the first one registers the search attributes", err)
	}
	return err
}

// verdict is nil when every payout is POSTED, or when nobody waited and every one was started.
func verdict(runs []payoutRun, noWait bool) error {
	unposted := 0
	for i := range runs {
		r := &runs[i]
		if r.err != nil {
			return fmt.Errorf("payout %s: %w", r.PayoutID, r.err)
		}
		if !noWait && !r.posted() {
			unposted++
		}
	}
	if unposted > 0 {
		return refused("%d of %d payouts are not POSTED", unposted, len(runs))
	}
	return nil
}

func runsTable(runs []payoutRun, noWait bool) func(io.Writer) error {
	return func(w io.Writer) error {
		rows := make([][]string, len(runs))
		for i, r := range runs {
			if noWait {
				rows[i] = []string{r.PayoutID, r.WorkflowID, orDash(r.RunID), orDash(r.Error)}
				continue
			}
			if r.PayoutResult == nil {
				rows[i] = []string{r.PayoutID, "-", "-", "-", "-", "-", orDash(r.Error)}
				continue
			}
			rows[i] = []string{r.PayoutID, orDash(r.AccountID), orDash(string(r.Outcome)), orDash(string(r.State)), tokenOrDash(r.FencingToken),
				orDash(r.RailReference), orDash(r.Reason)}
		}
		if noWait {
			return writeTable(w, []string{"PAYOUT", "WORKFLOW", "RUN", "ERROR"}, rows)
		}
		return writeTable(w, []string{"PAYOUT", "ACCOUNT", "OUTCOME", "STATE", "TOKEN", "RAIL REFERENCE", "REASON"}, rows)
	}
}
