package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"railguard/services/httpserver"
)

func payoutImport(t *target) *cobra.Command {
	opts := ImportOptions{}
	c := &cobra.Command{
		Use:   "import <file.csv>",
		Short: "Create a payout for each row of a CSV file (- reads standard input)",
		Long: `Create a PENDING payout for each row of a CSV file. The first line is
  external_ref,account_id,amount,currency,beneficiary_ref
and amounts are in major units with at most the decimal places of the currency. Every row is checked, with the
account that it names, before anything is written; a file with bad rows is refused whole, unless --skip-bad.
A row whose external_ref was imported before is known, not repeated: the same import may be run again at any time.`,
		Example: "  railguard payout import payouts.csv",
		Args:    cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.Flags().BoolVar(&opts.SkipBad, "skip-bad", false, "report bad rows and import the others")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := openInput(cmd, args[0])
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		payments, err := t.payments(httpserver.Intake)
		if err != nil {
			return err
		}
		opts.OwnerID = ownerID()
		opts.Progress = progress(cmd.ErrOrStderr(), "importing")
		result, err := Import(cmd.Context(), payments, file, opts)
		if err != nil && !errors.Is(err, ErrBadRows) && len(result.Payouts) == 0 {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		return errors.Join(output.print(cmd.OutOrStdout(), result, importTable(&result)), err)
	}
	return c
}

func openInput(cmd *cobra.Command, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, &inputError{err}
	}
	return file, nil
}

func importTable(r *ImportResult) func(io.Writer) error {
	return func(w io.Writer) error {
		if len(r.Bad) > 0 {
			rows := make([][]string, len(r.Bad))
			for i, b := range r.Bad {
				rows[i] = []string{strconv.Itoa(b.Line), orDash(b.ExternalRef), b.Reason}
			}
			if err := writeTable(w, []string{"LINE", "EXTERNAL REF", "REASON"}, rows); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "%d rows: %d new, %d known, %d bad\n", r.Rows, r.Created, r.Known, len(r.Bad))
		return err
	}
}

// progress draws a bar when w is a terminal, and is nil when it is not.
func progress(w io.Writer, what string) func(done, total int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	return func(done, total int) {
		bar.ChangeMax(total)
		_ = bar.Set(done) // a bar that cannot be drawn is no reason to stop
	}
}
