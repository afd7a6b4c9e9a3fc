// Railguard executes payouts behind fencing tokens. This is its one binary: a subcommand for each
// process and for each thing that a person does with them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"railguard/deploy/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
