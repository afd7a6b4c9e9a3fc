package cli

import (
	"io"

	"github.com/spf13/cobra"

	"railguard/services/httpserver"
	"railguard/services/money"
	"railguard/services/paymentapi"
)

func accountCommand() *cobra.Command {
	t := &target{}
	c := group("account", "Customer accounts", accountCreate(t), accountGet(t), accountFund(t))
	t.serviceFlags(c, "payment-resource", &t.paymentURL)
	return c
}

func accountCreate(t *target) *cobra.Command {
	var currency, opening string
	c := &cobra.Command{
		Use:     "create <account>",
		Short:   "Create an account, with opening funds if any; the same again changes nothing",
		Example: "  railguard account create acme-eur --currency EUR --opening 1000.00",
		Args:    cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.Flags().StringVar(&currency, "currency", "", "ISO 4217 code, such as EUR")
	c.Flags().StringVar(&opening, "opening", "", "opening funds in major units, such as 1000.00")
	_ = c.MarkFlagRequired("currency") // fails only for a flag that is not there
	c.RunE = func(cmd *cobra.Command, args []string) error {
		request := paymentapi.CreateAccountRequest{AccountID: args[0], Currency: money.Currency(currency)}
		if err := checkAccountID(args[0]); err != nil {
			return err
		}
		if _, err := request.Currency.Exponent(); err != nil {
			return badInput("--currency: %w", err)
		}
		if opening != "" {
			amount, err := money.Parse(opening, request.Currency)
			if err != nil {
				return badInput("--opening: %w", err)
			}
			request.OpeningMinor = amount.Minor
		}
		payments, err := t.payments(httpserver.Intake)
		if err != nil {
			return err
		}
		account, err := payments.CreateAccount(cmd.Context(), ownerID(), request)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), account, accountTable(account))
	}
	return c
}

func accountGet(t *target) *cobra.Command {
	c := &cobra.Command{
		Use:   "get <account>",
		Short: "Show an account: balance, reserved, fence, and the sum of its ledger entries",
		Args:  cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAccountID(args[0]); err != nil {
			return err
		}
		payments, err := t.payments(httpserver.Reader)
		if err != nil {
			return err
		}
		account, err := payments.GetAccount(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), account, accountTable(account))
	}
	return c
}

func accountFund(t *target) *cobra.Command {
	var amount, ref string
	c := &cobra.Command{
		Use:     "fund <account>",
		Short:   "Add funds to an account; the same reference again changes nothing",
		Example: "  railguard account fund acme-eur --amount 250.00 --external-ref topup-2024-05-01",
		Args:    cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.Flags().StringVar(&amount, "amount", "", "amount in major units of the account's currency")
	c.Flags().StringVar(&ref, "external-ref", "", "your own reference of this funding, unique for life")
	_ = c.MarkFlagRequired("amount")
	_ = c.MarkFlagRequired("external-ref")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAccountID(args[0]); err != nil {
			return err
		}
		payments, err := t.payments(httpserver.Intake)
		if err != nil {
			return err
		}
		account, err := payments.GetAccount(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		parsed, err := positive(amount, account.Currency)
		if err != nil {
			return badInput("--amount: %w", err)
		}
		funding, err := payments.Fund(cmd.Context(), ownerID(), args[0],
			paymentapi.FundingRequest{ExternalRef: ref, AmountMinor: parsed.Minor})
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), funding, func(w io.Writer) error {
			return writePairs(w, [][2]string{
				{"account", funding.AccountID},
				{"external ref", funding.ExternalRef},
				{"amount", major(funding.AmountMinor, account.Currency)},
				{"balance", major(funding.BalanceMinor, account.Currency)},
				{"at", timestamp(funding.At)},
			})
		})
	}
	return c
}

func accountTable(a *paymentapi.Account) func(io.Writer) error {
	return func(w io.Writer) error {
		return writePairs(w, [][2]string{
			{"account", a.AccountID},
			{"kind", string(a.Kind)},
			{"balance", major(a.BalanceMinor, a.Currency)},
			{"reserved", major(a.ReservedMinor, a.Currency)},
			{"available", major(a.AvailableMinor, a.Currency)},
			{"ledger sum", major(a.LedgerSumMinor, a.Currency)},
			{"fence", a.Fence.String()},
		})
	}
}

func checkAccountID(id string) error {
	if !httpserver.ValidAccountID(id) {
		return badInput("account %q: want 1 to 64 characters of [A-Za-z0-9._-]", id)
	}
	return nil
}

// positive reads an amount in major units and refuses zero.
func positive(s string, c money.Currency) (money.Amount, error) {
	amount, err := money.Parse(s, c)
	if err == nil && amount.Minor == 0 {
		return amount, badInput("%q is not above zero", s)
	}
	return amount, err
}
