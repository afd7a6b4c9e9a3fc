package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"railguard/services/lockserver"
	"railguard/services/paymentresource"
	"railguard/services/railproxy"
	"railguard/services/railstub"
	"railguard/services/telemetry"
	"railguard/workers"
)

// processes are the subcommands that run one long-lived process each, configured by the environment alone.
func processes() []*cobra.Command {
	return []*cobra.Command{
		process("lock-server", "Hand out leases and mint fencing tokens", lockserver.LoadConfig, lockserver.Run),
		process("payment-resource", "Guard the accounts and the ledger", paymentresource.LoadConfig, paymentresource.Run),
		process("rail-proxy", "Guard the rail: the only process that may call it", railproxy.LoadConfig, railproxy.Run),
		process("rail-stub", "Stand in for the rail, with faults on demand", railstub.LoadConfig, railstub.Run),
		process("worker", "Execute payouts: the workflows and their steps", workers.LoadConfig, workers.Run),
	}
}

func process[C any](use, short string, load func() (C, error), run func(context.Context, C, *slog.Logger) error) *cobra.Command {
	return &cobra.Command{
		Use:     use,
		Short:   short,
		GroupID: "processes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := load()
			if err != nil {
				return badInput("%s: %w", use, err)
			}
			flush, err := telemetry.StartTracing(cmd.Context(), use)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", use, telemetry.EndpointVariable, err)
			}
			defer func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 3*time.Second)
				defer cancel()
				_ = flush(ctx) // spans are a convenience; losing some must not fail a clean end
			}()
			err = run(cmd.Context(), config, telemetry.NewLogger(cmd.OutOrStdout(), use))
			if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
				return nil // asked to end, and it ended
			}
			return err
		},
	}
}
