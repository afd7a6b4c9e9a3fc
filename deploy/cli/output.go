package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"railguard/services/fencing"
	"railguard/services/money"
)

// format is the form in which a command prints what it was asked for.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
)

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "table|json" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	if s != string(asTable) && s != string(asJSON) {
		return fmt.Errorf("want table or json")
	}
	*f = format(s)
	return nil
}

// outputFlag gives a command --output.
func outputFlag(cmd *cobra.Command) *format {
	f := asTable
	cmd.Flags().VarP(&f, "output", "o", "how to print: a table for people (amounts in major units), or JSON (in minor units)")
	return &f
}

// print writes value as JSON, or what table makes of it.
func (f *format) print(w io.Writer, value any, table func(io.Writer) error) error {
	if *f == asTable {
		return table(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeTable writes rows under a header, in columns.
func writeTable(w io.Writer, header []string, rows [][]string) error {
	aligned := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(aligned, strings.Join(header, "\t")) // tabwriter keeps the error for Flush
	for _, row := range rows {
		_, _ = fmt.Fprintln(aligned, strings.Join(row, "\t"))
	}
	return aligned.Flush()
}

// writePairs writes one name and value a line; pairs without a value are left out.
func writePairs(w io.Writer, pairs [][2]string) error {
	aligned := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, pair := range pairs {
		if pair[1] != "" {
			_, _ = fmt.Fprintf(aligned, "%s\t%s\n", pair[0], pair[1])
		}
	}
	return aligned.Flush()
}

// major is an amount in major units with its currency.
func major(minor int64, currency money.Currency) string {
	return money.Amount{Minor: minor, Currency: currency}.String()
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// orDash stands for nothing in a table.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func tokenOrDash(t fencing.Token) string {
	if !t.Valid() {
		return "-"
	}
	return t.String()
}
