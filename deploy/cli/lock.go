package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
)

func lockCommand() *cobra.Command {
	t := &target{}
	c := group("lock", "Locks; that of an account is payout:<account>", lockGet(t), lockRevoke(t))
	t.serviceFlags(c, "lock-server", &t.lockURL)
	return c
}

func lockGet(t *target) *cobra.Command {
	c := &cobra.Command{
		Use:     "get <key>",
		Short:   "Show who holds a lock; it may be out of date before it is read",
		Example: "  railguard lock get payout:acme-eur",
		Args:    cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkLockKey(args[0]); err != nil {
			return err
		}
		locks, err := t.locks(httpserver.Reader)
		if err != nil {
			return err
		}
		lock, err := locks.Get(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), lock, func(w io.Writer) error {
			held := "no"
			if lock.Held {
				held = "yes"
			}
			token := ""
			if lock.FencingToken.Valid() {
				token = lock.FencingToken.String()
			}
			return writePairs(w, [][2]string{
				{"key", lock.Key},
				{"held", held},
				{"owner", lock.OwnerID},
				{"session", lock.SessionID},
				{"last token", token},
				{"acquired", optionalTimestamp(lock.AcquiredAt)},
				{"expires", optionalTimestamp(lock.ExpiresAt)},
				{"advisory", lock.Advisory},
			})
		})
	}
	return c
}

func lockRevoke(t *target) *cobra.Command {
	var r lockapi.RevokeRequest
	var expected string
	c := &cobra.Command{
		Use:   "revoke <key>",
		Short: "Take a lock from its holder",
		Long: `Take a lock from its holder, for an emergency. The next grant gets a token above the new floor, but the guards learn
of it only with that grant's first write: raise their fences to the floor as well when the old holder may still be running.`,
		Example: `  railguard lock revoke payout:acme-eur --reason "worker host lost, see incident 42" --expected-token 1181`,
		Args:    cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the record: at least 8 characters")
	c.Flags().StringVar(&r.Operator, "operator", person(), "who decided, for the record")
	c.Flags().StringVar(&expected, "expected-token", "", "revoke only while the holder's token is this one")
	_ = c.MarkFlagRequired("reason")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkLockKey(args[0]); err != nil {
			return err
		}
		if expected != "" {
			token, err := fencing.Parse(expected)
			if err != nil {
				return badInput("--expected-token: %w", err)
			}
			r.ExpectedToken = token
		}
		locks, err := t.locks(httpserver.Operator)
		if err != nil {
			return err
		}
		revocation, err := locks.Revoke(cmd.Context(), ownerID(), args[0], r)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), revocation, func(w io.Writer) error {
			return writePairs(w, [][2]string{
				{"key", revocation.Key},
				{"revoked token", revocation.RevokedToken.String()},
				{"new token floor", revocation.NewTokenFloor.String()},
				{"revocation", revocation.RevocationID},
			})
		})
	}
	return c
}

func checkLockKey(key string) error {
	if !httpserver.ValidLockKey(key) {
		return badInput("lock key %q: want 1 to 128 characters of [A-Za-z0-9:._-], such as payout:<account>", key)
	}
	return nil
}

func optionalTimestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return timestamp(*t)
}
