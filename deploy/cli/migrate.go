package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"railguard/deploy/migrate"
	"railguard/services/settings"
)

// migrateConfig is what the variables say. Passwords are per role; each may be given as NAME_FILE.
type migrateConfig struct {
	LockdbURL  string `envconfig:"LOCKDB_URL" need:"true" secret:"true"`
	PaydbURL   string `envconfig:"PAYDB_URL" need:"true" secret:"true"`
	Lockapp    string `envconfig:"LOCKAPP_PASSWORD" secret:"true"`
	Payapp     string `envconfig:"PAYAPP_PASSWORD" secret:"true"`
	Railapp    string `envconfig:"RAILAPP_PASSWORD" secret:"true"`
	Reconciler string `envconfig:"RECONCILER_PASSWORD" secret:"true"`
}

func migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring both databases to the schema of this build",
		Long: `Bring both databases to the schema of this build, make the roles that the services log in with, and set the
passwords that are given. What is in place is left alone: it may be run again at any time.

  LOCKDB_URL, PAYDB_URL   the databases, as a role that may create tables and roles in them
  LOCKAPP_PASSWORD, PAYAPP_PASSWORD, RAILAPP_PASSWORD, RECONCILER_PASSWORD
                          passwords of the roles; one that is not given is left as it is
Each may be given as NAME_FILE, the path of a file that holds the value. The server gets a password's SCRAM
verifier, never the password.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		var config migrateConfig
		if err := settings.Load(&config); err != nil {
			return &inputError{err}
		}
		options := migrate.Options{LockdbURL: config.LockdbURL, PaydbURL: config.PaydbURL, Passwords: map[string]string{}}
		for role, password := range map[string]string{
			"lockapp": config.Lockapp, "payapp": config.Payapp, "railapp": config.Railapp, "reconciler": config.Reconciler,
		} {
			if password != "" {
				options.Passwords[role] = password
			}
		}
		steps, err := migrate.Run(cmd.Context(), options)
		if errors.Is(err, migrate.ErrOptions) {
			return &inputError{err}
		}
		if len(steps) == 0 {
			return err
		}
		return errors.Join(output.print(cmd.OutOrStdout(), steps, stepsTable(steps)), err)
	}
	return c
}

func stepsTable(steps []migrate.Step) func(io.Writer) error {
	return func(w io.Writer) error {
		rows := make([][]string, len(steps))
		for i, s := range steps {
			rows[i] = []string{s.Database, s.What, s.Result}
		}
		return writeTable(w, []string{"DATABASE", "WHAT", "RESULT"}, rows)
	}
}
