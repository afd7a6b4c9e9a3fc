package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"railguard/services/httpserver"
	"railguard/services/money"
	"railguard/services/paymentapi"
)

func payoutCommand() *cobra.Command {
	t := &target{}
	c := group("payout", "Payouts", payoutCreate(t), payoutImport(t), payoutRunCommand(t), payoutGet(t), payoutList(t), payoutWatch(t),
		payoutCancel(t))
	t.serviceFlags(c, "payment-resource", &t.paymentURL)
	return c
}

func payoutCreate(t *target) *cobra.Command {
	var r paymentapi.CreatePayoutRequest
	var amount, currency string
	c := &cobra.Command{
		Use:     "create",
		Short:   "Create a PENDING payout; the same reference with the same content answers the same payout",
		Example: "  railguard payout create --account acme-eur --amount 10.50 --currency EUR --beneficiary DE02-1 --external-ref inv-1001",
		Args:    cobra.NoArgs,
	}
	output := outputFlag(c)
	c.Flags().StringVar(&r.AccountID, "account", "", "account that pays")
	c.Flags().StringVar(&amount, "amount", "", "amount in major units, such as 10.50")
	c.Flags().StringVar(&currency, "currency", "", "ISO 4217 code; the account's")
	c.Flags().StringVar(&r.BeneficiaryRef, "beneficiary", "", "who is paid, as the rail knows them")
	c.Flags().StringVar(&r.ExternalRef, "external-ref", "", "your own reference of this payout, unique for life")
	for _, name := range []string{"account", "amount", "currency", "beneficiary", "external-ref"} {
		_ = c.MarkFlagRequired(name)
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkAccountID(r.AccountID); err != nil {
			return err
		}
		parsed, err := positive(amount, money.Currency(currency))
		if err != nil {
			return badInput("--amount, --currency: %w", err)
		}
		r.AmountMinor, r.Currency = parsed.Minor, parsed.Currency
		payments, err := t.payments(httpserver.Intake)
		if err != nil {
			return err
		}
		payout, err := payments.CreatePayout(cmd.Context(), ownerID(), r)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), payout, payoutTable(payout))
	}
	return c
}

func payoutGet(t *target) *cobra.Command {
	c := &cobra.Command{
		Use:   "get <payout>",
		Short: "Show a payout and every transition it made",
		Args:  cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPayoutIDs(args); err != nil {
			return err
		}
		payments, err := t.payments(httpserver.Reader)
		if err != nil {
			return err
		}
		payout, err := payments.GetPayout(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), payout, payoutTable(payout))
	}
	return c
}

func payoutList(t *target) *cobra.Command {
	var r paymentapi.ListPayoutsRequest
	var state string
	var all bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List payouts, oldest first",
		Example: "  railguard payout list --state RAIL_AMBIGUOUS --all",
		Args:    cobra.NoArgs,
	}
	output := outputFlag(c)
	c.Flags().StringVar(&state, "state", "", "only this state: "+stateNames())
	c.Flags().StringVar(&r.AccountID, "account", "", "only this account")
	c.Flags().IntVar(&r.Limit, "limit", 100, "how many a page, 1 to 500")
	c.Flags().StringVar(&r.Cursor, "cursor", "", "go on after a page: what that page said")
	c.Flags().BoolVar(&r.OnePerAccount, "one-per-account", false, "only the oldest of each account")
	c.Flags().BoolVar(&all, "all", false, "every page")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		r.State = paymentapi.PayoutState(state)
		if state != "" && !slices.Contains(paymentapi.States, r.State) {
			return badInput("--state: %q is not one of %s", state, stateNames())
		}
		if r.Limit < 1 || r.Limit > 500 {
			return badInput("--limit: want 1 to 500")
		}
		if r.AccountID != "" {
			if err := checkAccountID(r.AccountID); err != nil {
				return err
			}
		}
		payments, err := t.payments(httpserver.Reader)
		if err != nil {
			return err
		}
		page, err := payments.ListPayouts(cmd.Context(), r)
		for err == nil && all && page.NextCursor != "" {
			r.Cursor = page.NextCursor
			var next *paymentapi.PayoutPage
			if next, err = payments.ListPayouts(cmd.Context(), r); err == nil {
				page = &paymentapi.PayoutPage{Payouts: append(page.Payouts, next.Payouts...), NextCursor: next.NextCursor}
			}
		}
		if err != nil {
			return err
		}
		if page.NextCursor != "" && *output == asTable {
			defer func() { _, _ = fmt.Fprintf(cmd.ErrOrStderr(), "more: --cursor %s\n", page.NextCursor) }()
		}
		return output.print(cmd.OutOrStdout(), page, payoutsTable(page.Payouts))
	}
	return c
}

func payoutCancel(t *target) *cobra.Command {
	var r paymentapi.CancelRequest
	c := &cobra.Command{
		Use:     "cancel <payout>",
		Short:   "Abandon a payout that is still PENDING",
		Example: `  railguard payout cancel 0b7e… --reason "duplicate of inv-1001"`,
		Args:    cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the record")
	c.Flags().StringVar(&r.Operator, "operator", person(), "who decided, for the record")
	_ = c.MarkFlagRequired("reason")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPayoutIDs(args); err != nil {
			return err
		}
		payments, err := t.payments(httpserver.Operator)
		if err != nil {
			return err
		}
		status, err := payments.Cancel(cmd.Context(), ownerID(), args[0], r)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), status, func(w io.Writer) error {
			return writePairs(w, [][2]string{
				{"payout", status.PayoutID},
				{"account", status.AccountID},
				{"state", string(status.State)},
				{"reason", status.StateReason},
			})
		})
	}
	return c
}

func checkPayoutIDs(ids []string) error {
	for _, id := range ids {
		if !httpserver.ValidUUID(id) {
			return badInput("payout %q is not a UUID in its canonical form", id)
		}
	}
	return nil
}

func stateNames() string {
	names := make([]string, len(paymentapi.States))
	for i, s := range paymentapi.States {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func payoutTable(p *paymentapi.Payout) func(io.Writer) error {
	return func(w io.Writer) error {
		token := ""
		if p.ClaimToken.Valid() {
			token = p.ClaimToken.String()
		}
		err := writePairs(w, [][2]string{
			{"payout", p.PayoutID},
			{"external ref", p.ExternalRef},
			{"account", p.AccountID},
			{"amount", major(p.AmountMinor, p.Currency)},
			{"beneficiary", p.BeneficiaryRef},
			{"state", string(p.State)},
			{"reason", p.StateReason},
			{"claimed by", p.ClaimedBy},
			{"claim token", token},
			{"attempts", strconv.Itoa(p.AttemptCount)},
			{"rail reference", p.RailReference},
			{"created", timestamp(p.CreatedAt)},
			{"updated", timestamp(p.UpdatedAt)},
		})
		if err != nil || len(p.Transitions) == 0 {
			return err
		}
		_, _ = fmt.Fprintln(w) // the next write reports what is wrong with w
		return transitionsTable(w, p.Transitions)
	}
}

var transitionsHeader = []string{"AT", "FROM", "TO", "TOKEN", "OWNER", "REASON"}

func transitionsTable(w io.Writer, transitions []paymentapi.Transition) error {
	rows := make([][]string, len(transitions))
	for i, t := range transitions {
		rows[i] = transitionRow(t)
	}
	return writeTable(w, transitionsHeader, rows)
}

func transitionRow(t paymentapi.Transition) []string {
	return []string{timestamp(t.At), orDash(string(t.FromState)), string(t.ToState), tokenOrDash(t.Token), orDash(t.OwnerID), orDash(t.Reason)}
}

func payoutsTable(payouts []paymentapi.Payout) func(io.Writer) error {
	return func(w io.Writer) error {
		rows := make([][]string, len(payouts))
		for i, p := range payouts {
			rows[i] = []string{p.PayoutID, p.ExternalRef, p.AccountID, major(p.AmountMinor, p.Currency), string(p.State),
				tokenOrDash(p.ClaimToken), strconv.Itoa(p.AttemptCount), orDash(p.RailReference), timestamp(p.CreatedAt)}
		}
		return writeTable(w, []string{"PAYOUT", "EXTERNAL REF", "ACCOUNT", "AMOUNT", "STATE", "TOKEN", "ATTEMPTS", "RAIL REFERENCE", "CREATED"}, rows)
	}
}
