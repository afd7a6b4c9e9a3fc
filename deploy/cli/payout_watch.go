package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"railguard/services/httpserver"
	"railguard/services/paymentapi"
)

// watchInterval is how often a watched payout is read.
const watchInterval = 250 * time.Millisecond

// watched is one line of the watch in JSON.
type watched struct {
	PayoutID string `json:"payoutId"`
	paymentapi.Transition
}

func payoutWatch(t *target) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "watch <payout>",
		Short: "Show a payout's transitions as they happen, until it comes to rest",
		Long: `Show a payout's transitions as they happen, until it is POSTED, FAILED or ABANDONED, or RAIL_AMBIGUOUS, which only a
recorded resolution ends. As JSON it prints one object a line.`,
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to watch; 0 is without end")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPayoutIDs(args); err != nil {
			return err
		}
		payments, err := t.payments(httpserver.Reader)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		payout, err := watch(ctx, payments, args[0], func(transition paymentapi.Transition) error {
			return writeTransition(cmd.OutOrStdout(), *output, args[0], transition)
		})
		if err != nil {
			return err
		}
		if payout.State != paymentapi.Posted {
			return refused("the payout is %s", payout.State)
		}
		return nil
	}
	return c
}

// watch calls show for every transition, once and in order, and returns the payout when it has come to rest.
func watch(ctx context.Context, payments *paymentapi.Client, id string, show func(paymentapi.Transition) error) (*paymentapi.Payout, error) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	shown := 0
	for {
		payout, err := payments.GetPayout(ctx, id)
		if err != nil {
			return nil, firstError(stopped(ctx), err)
		}
		for _, transition := range payout.Transitions[shown:] {
			if err := show(transition); err != nil {
				return nil, err
			}
		}
		shown = len(payout.Transitions)
		switch payout.State {
		case paymentapi.Posted, paymentapi.Failed, paymentapi.Abandoned, paymentapi.RailAmbiguous:
			return payout, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, stopped(ctx)
		}
	}
}

// stopped says why a watch ended before its payout did, nil when it did not.
func stopped(ctx context.Context) error {
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return fmt.Errorf("the payout has not come to rest within the timeout")
	}
	return ctx.Err()
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func writeTransition(w io.Writer, f format, payoutID string, t paymentapi.Transition) error {
	if f == asJSON {
		return json.NewEncoder(w).Encode(watched{payoutID, t})
	}
	_, err := fmt.Fprintf(w, "%s  %14s -> %-14s  token %-8s %s\n", timestamp(t.At), orDash(string(t.FromState)), t.ToState, tokenOrDash(t.Token), t.Reason)
	return err
}
