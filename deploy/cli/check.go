package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"railguard/harness/invariants"
	"railguard/services/stubapi"
)

func checkCommand() *cobra.Command {
	t := &target{}
	var withoutLog bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the invariants over what the databases hold",
		Long: `Check INV-01, 02, 03, 05, 07 and 08 over paydb (PAYDB_URL, a role that may SELECT suffices; else the profile's), and
over the rail stub's own log of requests (RAIL_STUB_URL, else the profile's with the profile's database). Every
violation is shown with its rows. An empty database violates nothing and is no evidence of anything.`,
		Args: cobra.NoArgs,
	}
	t.profileFlag(c)
	output := outputFlag(c)
	c.Flags().BoolVar(&withoutLog, "without-rail-log", false, "do not compare with the rail stub's log")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		paydb, stub, err := t.evidence()
		if err != nil {
			return err
		}
		if withoutLog {
			stub = ""
		}
		report, err := check(cmd.Context(), paydb, stub)
		if err != nil {
			return err
		}
		err = output.print(cmd.OutOrStdout(), report, func(w io.Writer) error {
			_, err := io.WriteString(w, report.String())
			return err
		})
		if err != nil {
			return err
		}
		if report.Looked() == 0 {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "nothing was looked at: an empty database is no evidence")
		}
		if !report.OK() {
			return fmt.Errorf("%w: %d of %d checks failed", errViolated, len(report.Findings), len(report.Checks))
		}
		return nil
	}
	return c
}

// evidence is where paydb is, and the rail stub; "" where there is none. The profile's stub belongs to the profile's database alone.
func (t *target) evidence() (paydb, stub string, err error) {
	e, err := loadEnvironment()
	if err != nil {
		return "", "", err
	}
	if e.PaydbURL != "" && e.RailStubURL != "" {
		return e.PaydbURL, e.RailStubURL, nil
	}
	p, err := t.profile()
	switch {
	case e.PaydbURL == "" && err != nil:
		return "", "", badInput("PAYDB_URL is not set, and %w", err)
	case e.PaydbURL == "":
		return p.PaydbURL, firstOf(e.RailStubURL, p.RailStub), nil
	case err == nil && p.PaydbURL == e.PaydbURL:
		return e.PaydbURL, firstOf(e.RailStubURL, p.RailStub), nil
	}
	return e.PaydbURL, e.RailStubURL, nil
}

// check reads the rail's log first, so that every request in it has its record, and then paydb as of one moment.
func check(ctx context.Context, paydb, stub string) (report invariants.Report, err error) {
	var requests []stubapi.Request
	if stub != "" {
		if requests, err = railLog(ctx, stub); err != nil {
			return report, err
		}
	}
	config, err := pgx.ParseConfig(paydb)
	if err != nil {
		return report, badInput("PAYDB_URL is not a PostgreSQL URL") // the parse error may show the password
	}
	config.ConnectTimeout = dialTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		report, err = invariants.Check(ctx, tx, requests)
		return err
	})
	return report, err
}

func railLog(ctx context.Context, stub string) ([]stubapi.Request, error) {
	c, err := stubapi.NewClient(stub)
	if err != nil {
		return nil, badInput("RAIL_STUB_URL: %w", err)
	}
	log, err := c.Requests(ctx, "")
	if err != nil {
		return nil, err
	}
	if log.Requests == nil {
		return []stubapi.Request{}, nil // an empty log is compared too
	}
	return log.Requests, nil
}
