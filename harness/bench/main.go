// Bench measures what a payout costs. In one run, on one Temporal server, it executes payouts through the whole system and
// as many bare workflows of no-op activities, in alternating blocks: the bare workflow is what the engine itself
// costs on this machine at this hour, and the ratio to it is a figure that another machine can be held to.
//
//	go run ./harness/bench [flags]
//
// The databases run as in production, with fsync and synchronous commit; the rail answers at once, because its time is not
// ours. The exit code is 1 when a payout did not end POSTED, an invariant does not hold or nothing could be measured, and 2 for bad flags; a missed
// target changes no exit code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitFine   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, out, progress io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 && args[0] == bareWorkerCommand {
		return exitCode(runBareWorker(ctx), progress)
	}
	o, err := parseOptions(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return exitFine
	}
	if err != nil {
		_, _ = fmt.Fprintln(progress, "bench:", err) // there is nowhere else to say it
		return exitUsage
	}
	report, err := measure(ctx, o, progress)
	if report != nil {
		err = errors.Join(err, report.write(out, o.jsonFile), report.wrong())
	}
	return exitCode(err, progress)
}

func exitCode(err error, progress io.Writer) int {
	if err == nil {
		return exitFine
	}
	_, _ = fmt.Fprintln(progress, "bench:", err) // there is nowhere else to say it
	return exitFailed
}
