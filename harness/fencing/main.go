// Fencing runs the fencing experiment. It freezes a worker process with SIGSTOP in the middle of a payout, waits until its
// lease has lapsed, lets a second worker take over, thaws the first, and reads from the databases, the rail's own
// log, the guards' events and counters, and the histories what became of the money: once for each position of the two
// guards' switches.
//
//	harness/fencing-demo.sh --fencing off
//	harness/fencing-demo.sh --fencing on
//
// The exit code is 0 when every repetition showed what its mode must show, 1 when one did not or the experiment could not
// be made, 2 for bad flags or a system that does not fit, and 130 when it was interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

const (
	exitShown       = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell has it for SIGINT
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of the output that goes away, such as head, must not end this program before it has ended what it started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	code := run(ctx, options{}, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command; out gets the tables and the summary, progress everything else. What o holds is kept where
// no flag says otherwise.
func run(ctx context.Context, o options, args []string, out, progress io.Writer) int {
	err := command(o, out, progress, args).ExecuteContext(ctx)
	if err == nil {
		return exitShown
	}
	var verdict *verdictError
	interrupted := ctx.Err() != nil && !errors.As(err, &verdict)
	if interrupted {
		err = fmt.Errorf("interrupted, and nothing is shown: %w", err)
	}
	_, _ = fmt.Fprintln(progress, "fencing:", err) // there is nowhere else to say it
	var usage *usageError
	switch {
	case interrupted:
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// verdictError says that the experiment was made and did not show what it must show.
type verdictError struct{ error }

// usageError says that the caller must change what was asked.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func command(o options, out, progress io.Writer, args []string) *cobra.Command {
	c := &cobra.Command{
		Use:   "fencing-demo.sh --fencing off|rail-only|account-only|on",
		Short: "Freeze a worker in mid-payout and see what the money does",
		Long: `Freeze a worker in mid-payout and see what the money does.

Each repetition makes a fresh account and payout, starts worker A on it, stops A's process inside the submission to
the rail, waits until A's lease has lapsed, lets worker B finish the payout, and wakes A. With both guards off the money must
move twice; a guard that is on must refuse A's stale token. The verdict is read from the databases, the rail stub's own log,
the guards' events and counters, and the histories; every run leaves a folder with all of it and a page that shows it.

Exit code: 0 every repetition showed what it must show, 1 one did not or the experiment could not be made, 2 bad flags or a
system whose switches do not fit, 130 interrupted.`,
		Example: `  harness/fencing-demo.sh --fencing off
  harness/fencing-demo.sh --fencing on --repeat 20 --parallel 4
  harness/fencing-demo.sh --fencing off --pause none`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unexpected argument %q; the mode is a flag: --fencing off, rail-only, account-only or on", args[0])
			}
			return nil
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settled, err := o.settle(cmd)
			if err != nil {
				return err
			}
			return experiment(cmd.Context(), settled, out, progress)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	c.SetOut(out)
	c.SetErr(progress)
	c.SetArgs(args)
	c.CompletionOptions.DisableDefaultCmd = true
	o.flags(c)
	return c
}
