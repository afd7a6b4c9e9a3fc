// Package cli is the command line of railguard.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Run parses args and does what they say; it returns the process's exit code.
func Run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := &cobra.Command{
		Use:           "railguard",
		Short:         "Execute payouts behind fencing tokens",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddGroup(&cobra.Group{ID: "processes", Title: "Processes (configured by environment variables):"})
	root.AddCommand(processes()...)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	if err := root.ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		_, _ = fmt.Fprintln(errOut, "railguard:", err)
		return 1
	}
	return 0
}
