package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"railguard/deploy/local"
	"railguard/deploy/local/demo"
	"railguard/services/httpclient"
	"railguard/services/paymentapi"
	"railguard/services/stubapi"
	"railguard/workflows"
)

func demoCommand() *cobra.Command {
	var flags stackFlags
	var exit bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Start a fresh system and watch it execute 30 payouts",
		Long: `Start the whole system, fresh, and execute 30 payouts over 8 accounts and 3 currencies: one that the rail
declines, one that the rail does not answer in time, one without funds. Shows what became of each, and whether the
invariants hold. The system stays up until Ctrl-C, so that the payouts can be looked at in the web UI.`,
		Args: cobra.NoArgs,
	}
	flags.add(c)
	c.Flags().BoolVar(&flags.options.Headless, "headless", false, "start no web UI")
	_ = c.Flags().MarkHidden("data-dir") // a demonstration starts from nothing
	c.Flags().BoolVar(&exit, "exit", false, "end by itself; the exit code says whether everything came out as expected")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		options, err := flags.local(cmd)
		if err != nil {
			return err
		}
		options.DataDir = ""
		// Placed before the caller's own, which outrank them.
		options.Env[local.RailProxy] = slices.Insert(options.Env[local.RailProxy], 0, "RAIL_TIMEOUT="+demo.RailTimeout)
		options.Env[local.Worker] = slices.Insert(options.Env[local.Worker], 0, "SUBMIT_BUDGET="+demo.SubmitBudget)
		return withStack(cmd.Context(), options, func(ctx context.Context, stack *local.Stack) error {
			d := &demonstration{stack: stack, out: cmd.OutOrStdout(), progress: cmd.ErrOrStderr()}
			verdict := d.run(ctx)
			if exit || ctx.Err() != nil {
				return verdict
			}
			if verdict != nil {
				_, _ = fmt.Fprintln(d.out, "\nrailguard:", verdict)
			}
			summarize(d.out, stack, options)
			if err := stack.Wait(ctx); err != nil {
				return err
			}
			return verdict
		})
	}
	return c
}

// demonstration is one run of the demo against a running system.
type demonstration struct {
	stack         *local.Stack
	out, progress io.Writer

	payments *paymentapi.Client
	stub     *stubapi.Client
	temporal client.Client
}

// executed is what became of one payout: as its workflow says, as payment-resource says, and how many
// requests for it the rail received.
type executed struct {
	result   workflows.PayoutResult
	payout   *paymentapi.Payout
	requests int
}

// run returns an error when anything is not as it must be.
func (d *demonstration) run(ctx context.Context) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	defer d.temporal.Close()
	payouts, err := d.intake(ctx)
	if err != nil {
		return err
	}
	all, err := d.execute(ctx, payouts)
	if err != nil {
		return err
	}
	if err := writeTable(d.out, demoHeader, demoRows(all)); err != nil {
		return err
	}
	report, err := check(ctx, d.stack.ReaderURL(), d.stack.URL(local.RailStub))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(d.out, "\n%s", report) // what is wrong is in the error too
	if ui := d.stack.UIURL(); ui != "" {
		_, _ = fmt.Fprintf(d.out, "\nweb UI: %s\n", ui)
	}
	if !report.OK() {
		return fmt.Errorf("%w: %d of %d checks failed", errViolated, len(report.Findings), len(report.Checks))
	}
	if err := judge(all); err != nil {
		return err
	}
	_, _ = fmt.Fprint(d.out, demoNext) // it proves nothing
	return nil
}

// demoNext is where the demonstration ends and the experiment begins.
const demoNext = `
All payouts ended as they must. But nothing stopped here. Now freeze a worker in mid-payout and see what becomes of the money:

  harness/fencing-demo.sh --fencing off    the guards trust the lock: the money moves twice and the ledger stops adding up
  harness/fencing-demo.sh --fencing on     the guards compare tokens: the same worker is refused, twice

harness/fencing-demo/README.md says how to read what they show.
`

func (d *demonstration) connect(ctx context.Context) (err error) {
	if d.payments, err = paymentapi.NewClient(d.stack.URL(local.PaymentResource), httpclient.Identity{Bearer: d.stack.Bearer("intake")}); err != nil {
		return err
	}
	if d.stub, err = stubapi.NewClient(d.stack.URL(local.RailStub)); err != nil {
		return err
	}
	d.temporal, err = client.DialContext(ctx, client.Options{HostPort: d.stack.TemporalAddress(), Namespace: local.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	return err
}

// intake makes the accounts, imports the payouts and tells the rail how to treat some of them.
func (d *demonstration) intake(ctx context.Context) ([]paymentapi.Payout, error) {
	accounts, err := demo.Accounts()
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		if _, err := d.payments.CreateAccount(ctx, ownerID(), account); err != nil {
			return nil, fmt.Errorf("account %s: %w", account.AccountID, err)
		}
	}
	imported, err := Import(ctx, d.payments, strings.NewReader(demo.Payouts), ImportOptions{OwnerID: ownerID(), Progress: progress(d.progress, "importing")})
	if err != nil {
		return nil, err
	}
	for _, payout := range imported.Payouts {
		if fault := demo.Expect(payout.ExternalRef).Fault; fault != nil {
			fault.ClientRef = payout.PayoutID
			if err := d.stub.AddFault(ctx, *fault); err != nil {
				return nil, err
			}
		}
	}
	_, _ = fmt.Fprintf(d.progress, "imported %d payouts over %d accounts; executing them\n", len(imported.Payouts), len(accounts))
	return imported.Payouts, nil
}

// passes bounds how often a payout that was contended or given up before the money could move is started again. That
// repeats no submission: a payout that was presented to the rail is completed from the record, or ends where no pass leads on.
const passes = 10

// execute runs all payouts at once; those of one account wait for each other at its lock.
func (d *demonstration) execute(ctx context.Context, payouts []paymentapi.Payout) ([]executed, error) {
	ids := make([]string, len(payouts))
	for i, payout := range payouts {
		ids[i] = payout.PayoutID
	}
	began := time.Now()
	results := make(map[string]workflows.PayoutResult, len(payouts))
	for pass, open := 0, ids; pass < passes && len(open) > 0; pass++ {
		runs := execute(ctx, d.temporal, local.TaskQueue, open, true, progress(d.progress, "executing"))
		open = nil
		for _, run := range runs {
			if run.err != nil {
				return nil, fmt.Errorf("payout %s: %w", run.PayoutID, run.err)
			}
			results[run.PayoutID] = *run.PayoutResult
			if run.Outcome == workflows.OutcomeContended || run.Outcome == workflows.OutcomeAbandoned {
				open = append(open, run.PayoutID)
			}
		}
	}
	_, _ = fmt.Fprintf(d.progress, "executed %d payouts in %.1f s\n\n", len(ids), time.Since(began).Seconds())
	all := make([]executed, len(ids))
	for i, id := range ids {
		payout, err := d.payments.GetPayout(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("payout %s: %w", id, err)
		}
		requests, err := d.stub.Requests(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("payout %s: %w", id, err)
		}
		all[i] = executed{results[id], payout, len(requests.Requests)}
	}
	return all, nil
}

var demoHeader = []string{"PAYOUT", "REF", "ACCOUNT", "AMOUNT", "OUTCOME", "STATE", "TOKEN", "REQUESTS", "RAIL REFERENCE"}

func demoRows(all []executed) [][]string {
	rows := make([][]string, len(all))
	for i, e := range all {
		rows[i] = []string{e.payout.PayoutID, e.payout.ExternalRef, e.payout.AccountID, major(e.payout.AmountMinor, e.payout.Currency),
			string(e.result.Outcome), string(e.payout.State), tokenOrDash(e.result.FencingToken), strconv.Itoa(e.requests), orDash(e.payout.RailReference)}
	}
	return rows
}

// judge compares every payout with what must have become of it.
func judge(all []executed) error {
	var wrong []string
	for _, e := range all {
		want := demo.Expect(e.payout.ExternalRef)
		if string(e.result.Outcome) != want.Outcome || e.payout.State != want.State || e.requests != want.Requests {
			wrong = append(wrong, fmt.Sprintf("\n  %s (%s): outcome %s, state %s, %d requests at the rail; want %s, %s, %d", e.payout.ExternalRef,
				e.payout.PayoutID, e.result.Outcome, e.payout.State, e.requests, want.Outcome, want.State, want.Requests))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d payouts are not as expected:%s", len(wrong), len(all), strings.Join(wrong, ""))
	}
	return nil
}
