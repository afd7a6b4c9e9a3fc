package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"railguard/deploy/local"
	"railguard/deploy/local/pginstall"
	"railguard/deploy/local/profile"
)

func devCommand() *cobra.Command {
	var flags stackFlags
	var prepare bool
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system on this machine, without containers, until Ctrl-C",
		Long: `Run the whole system on this machine, without containers: two PostgreSQL servers, Temporal's development
server with its web UI, and every process, each a child with its own log.

PostgreSQL is the one that PG_BIN names, or the one on PATH or in Debian's folders; where there is none, root on
Debian gets the package installed and everybody else built binaries fetched. Temporal is the command that
TEMPORAL_CLI names, the one on PATH, or the one that "make tools" builds.

Ctrl-C ends everything in order; a second Ctrl-C kills it. A process that ends by itself ends the system, and this
command with it. With --data-dir databases and tokens survive; Temporal's histories are in memory and never do.`,
		Args: cobra.NoArgs,
	}
	flags.add(c)
	c.Flags().BoolVar(&flags.options.NoWorker, "no-worker", false, "start no worker")
	c.Flags().BoolVar(&flags.options.Headless, "headless", false, "start no web UI")
	c.Flags().BoolVar(&prepare, "prepare", false, "only see to it that PostgreSQL and Temporal are there, installing what is missing")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if prepare {
			return prepareMachine(cmd.Context(), cmd.ErrOrStderr())
		}
		options, err := flags.local(cmd)
		if err != nil {
			return err
		}
		return withStack(cmd.Context(), options, func(ctx context.Context, stack *local.Stack) error {
			summarize(cmd.OutOrStdout(), stack, options)
			return stack.Wait(ctx)
		})
	}
	return c
}

func prepareMachine(ctx context.Context, out io.Writer) error {
	if _, err := pginstall.Ensure(ctx, out); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = local.FindTemporal(self)
	return err
}

// errKilled says that the person at the terminal would not wait for the orderly end. The children die with this process.
var errKilled = errors.New("interrupted again: everything is killed")

// withStack starts a system, leaves its profile for other shells while do runs, and stops it in order.
func withStack(ctx context.Context, options local.Options, do func(context.Context, *local.Stack) error) error {
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed: no secrets may be left behind
		defer stop()
	}
	stack, err := local.Start(ctx, options)
	if err != nil {
		return err
	}
	forget, err := announce(stack)
	if err == nil {
		err = do(ctx, stack)
	}
	if err != nil && ctx.Err() == nil {
		stack.KeepData() // its logs are what there is to look at
		err = fmt.Errorf("%w\nthe logs are kept in %s", err, stack.LogDir())
	}
	return errors.Join(err, stopOrKill(stack), forget())
}

// announce leaves the stack's profile where commands of other shells look for it, and returns what takes it away again.
func announce(stack *local.Stack) (func() error, error) {
	nothing := func() error { return nil }
	path, err := profile.DefaultPath()
	if err != nil {
		return nothing, nil //nolint:nilerr // an account without a home: other shells name the profile themselves
	}
	mine := stack.Profile()
	before, err := profile.LoadFile(path)
	if err != nil {
		before = nil // there is none, or one that nobody can use
	}
	if err := mine.Save(path); err != nil {
		return nothing, err
	}
	return func() error { return giveBack(path, mine, before) }, nil
}

// giveBack takes mine away from path, unless a newer stack's profile is there. A stack that was there before and still runs is found again.
func giveBack(path string, mine, before *profile.Profile) error {
	if err := mine.RemoveIfSame(path); err != nil || before == nil || !stillRuns(before) {
		return err
	}
	if _, err := profile.LoadFile(path); !errors.Is(err, profile.ErrNone) {
		return err
	}
	return before.Save(path)
}

// stillRuns reports whether somebody listens where the profile says that payment-resource is.
func stillRuns(p *profile.Profile) bool {
	at, err := url.Parse(p.PaymentResource)
	if err != nil {
		return false
	}
	socket, err := net.DialTimeout("tcp", at.Host, time.Second)
	if err != nil {
		return false
	}
	_ = socket.Close() // nothing was sent on it
	return true
}

func stopOrKill(stack *local.Stack) error {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	stopped := make(chan error, 1)
	go func() { stopped <- stack.Stop() }()
	select {
	case err := <-stopped:
		return err
	case <-again:
		return errKilled
	}
}

// summarize says where everything is and what to do with it.
func summarize(w io.Writer, stack *local.Stack, options local.Options) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("")
	line("Railguard is running. Ctrl-C stops it.")
	line("")
	for _, name := range []string{local.LockServer, local.PaymentResource, local.RailProxy, local.RailStub, local.Worker} {
		if stack.Process(name) != nil {
			line("  %-18s %s", name, stack.URL(name))
		}
	}
	line("  %-18s %s", "temporal", stack.TemporalAddress())
	if ui := stack.UIURL(); ui != "" {
		line("  %-18s %s", "web UI", ui)
	}
	line("  %-18s %s", "logs", stack.LogDir())
	line("  %-18s %s", "bearer tokens", filepath.Join(filepath.Dir(stack.TokenFile("intake")), "<role>.token"))
	line("  %-18s %s", "data", dataNote(stack, options))
	line("  %-18s %s", "profile", stack.ProfilePath()+" (for --profile; without it commands find the system that was started last)")
	line("")
	line("In another shell (the database role may only read):")
	line("")
	line("  export PAYDB_URL='%s'", stack.ReaderURL())
	line("  export TEMPORAL_ADDRESS=%s", stack.TemporalAddress())
	line("  %s account create acme-eur --currency EUR --opening 1000.00", commandName())
	line("  %s payout create --account acme-eur --amount 10.50 --currency EUR --beneficiary DE02-1 --external-ref inv-1001", commandName())
	line("  %s payout run <payout id>", commandName())
	line("  %s workflow start --task-queue %s --type ExecutePayout --workflow-id payout-<payout id> \\", stack.TemporalCommand(), local.TaskQueue)
	line(`    --fail-existing --input '{"payoutId":"<payout id>"}'`)
	line(`  psql "$PAYDB_URL" -c "select payout_id, state, attempt_count from payout order by created_at"`)
	line("")
	_, _ = io.WriteString(w, b.String()) // a summary that cannot be shown is no reason to stop
}

func dataNote(stack *local.Stack, options local.Options) string {
	if options.DataDir == "" {
		return stack.DataDir() + " (removed at the end; --data-dir keeps it)"
	}
	return stack.DataDir() + " (kept: databases and tokens; Temporal's histories are in memory and end with it)"
}

// commandName is how the person called this program.
func commandName() string {
	if strings.Contains(os.Args[0], string(filepath.Separator)) {
		return os.Args[0]
	}
	return "railguard"
}
