package cli

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/api/serviceerror"

	"railguard/services/apierr"
	"railguard/services/httpclient"
)

// The exit codes of the command line.
const (
	ExitOK          = 0 // done
	ExitFailed      = 1 // it went wrong, and none of the other codes says how
	ExitBadInput    = 2 // an argument, a variable or an input file is not valid; nothing was done
	ExitRefused     = 3 // a service refused, or the payout did not end POSTED
	ExitUnreachable = 4 // a service, a database or Temporal could not be reached
	ExitViolated    = 5 // an invariant does not hold
)

const exitCodesHelp = `  0  done
  1  it went wrong, and none of the other codes says how
  2  an argument, a variable or an input file is not valid; nothing was done
  3  a service refused, or the payout did not end POSTED
  4  a service, a database or Temporal could not be reached
  5  an invariant does not hold`

// inputError says that the caller must change what was asked.
type inputError struct{ error }

func (e *inputError) Unwrap() error { return e.error }

func badInput(format string, args ...any) error { return &inputError{fmt.Errorf(format, args...)} }

// refusedError is an answer that is no mistake of anybody and still not what was asked for.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

func refused(format string, args ...any) error { return &refusedError{fmt.Errorf(format, args...)} }

// unreachableError says that nobody answered.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

func unreachable(format string, args ...any) error {
	return &unreachableError{fmt.Errorf(format, args...)}
}

// errViolated ends a check that found something; the findings have been printed.
var errViolated = errors.New("an invariant does not hold")

func exitCode(err error) int {
	var (
		input       *inputError
		business    *refusedError
		away        *unreachableError
		answer      *apierr.Error
		transport   *httpclient.TransportError
		connect     *pgconn.ConnectError
		unavailable *serviceerror.Unavailable
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errViolated):
		return ExitViolated
	case errors.As(err, &input):
		return ExitBadInput
	case errors.As(err, &business):
		return ExitRefused
	case errors.As(err, &answer):
		return exitCodeOf(answer.Code)
	case interrupted(err): // before the transport's error that it also causes
		return ExitFailed
	case errors.As(err, &away), errors.As(err, &transport), errors.As(err, &connect), errors.As(err, &unavailable):
		return ExitUnreachable
	}
	return ExitFailed
}

// interrupted reports whether the person at the terminal ended it: Temporal's client says so in an error of its own.
func interrupted(err error) bool {
	var canceled *serviceerror.Canceled
	return errors.Is(err, context.Canceled) || errors.As(err, &canceled)
}

func exitCodeOf(code apierr.Code) int {
	switch code {
	case apierr.ValidationFailed, apierr.InvalidToken:
		return ExitBadInput
	case apierr.NotLeader, apierr.RailUnavailable: // what stands behind the service does not answer
		return ExitUnreachable
	case apierr.Internal:
		return ExitFailed
	}
	return ExitRefused
}

// describe is an error for a person: the fields of a validation error one a line, and an interruption
// by its name.
func describe(err error) string {
	var answer *apierr.Error
	if errors.As(err, &answer) {
		if fields, ok := answer.Details["fields"].(map[string]any); ok && len(fields) > 1 {
			lines := make([]string, 0, len(fields))
			for name, what := range fields {
				lines = append(lines, fmt.Sprintf("\n  %s: %v", name, what))
			}
			sort.Strings(lines)
			return err.Error() + strings.Join(lines, "")
		}
		return err.Error()
	}
	if interrupted(err) {
		return "interrupted"
	}
	return err.Error()
}
