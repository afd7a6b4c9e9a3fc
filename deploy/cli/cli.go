// Package cli is the command line of railguard.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

const rootHelp = `Execute payouts behind fencing tokens.

Commands that talk to a running system find it, in this order, by their flags, by the variables
LOCK_SERVER_URL, PAYMENT_RESOURCE_URL, RAIL_STUB_URL, RAILGUARD_TOKEN_FILE, PAYDB_URL and Temporal's own
(TEMPORAL_ADDRESS, …), and by the profile that a running "railguard dev" leaves behind (RAILGUARD_PROFILE=path
for another one).

Exit codes:
` + exitCodesHelp

// Run parses args and does what they say; it returns the process's exit code, one of the Exit constants.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	started := false
	trackStart(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	var input *inputError
	if !started && !errors.As(err, &input) { // cobra refused the arguments; its errors have no type and do not say what is missing
		err = badInput("%w; usage: %s", err, cmd.UseLine())
	}
	_, _ = fmt.Fprintln(errOut, "railguard:", describe(err))
	return exitCode(err)
}

func newRoot() *cobra.Command {
	root := group("railguard", "Execute payouts behind fencing tokens")
	root.Long = rootHelp
	root.AddGroup(
		&cobra.Group{ID: "stack", Title: "The whole system on this machine:"},
		&cobra.Group{ID: "work", Title: "Payouts and what surrounds them:"},
		&cobra.Group{ID: "operations", Title: "Operations:"},
		&cobra.Group{ID: "processes", Title: "Processes (configured by environment variables):"},
	)
	for id, commands := range map[string][]*cobra.Command{
		"stack":      {devCommand(), demoCommand()},
		"work":       {accountCommand(), payoutCommand(), lockCommand()},
		"operations": {migrateCommand(), checkCommand(), healthCommand(), versionCommand()},
	} {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	root.AddCommand(processes()...)
	return root
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:           use,
		Short:         short,
		Args:          noSuchCommand,
		SilenceUsage:  true,
		SilenceErrors: true,

		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString(), "\n")
			return badInput("which command?")
		},
	}
	c.AddCommand(commands...)
	return c
}

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	message := fmt.Sprintf("%q is not a command of %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return badInput("%s", message)
}

// trackStart makes every command say that it began: what fails before is a mistake in the arguments.
func trackStart(cmd *cobra.Command, started *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		trackStart(sub, started)
	}
}
