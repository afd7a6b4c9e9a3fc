package pglock

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"railguard/services/lockserver/internal/lock"
	"railguard/services/postgres"
)

// classify turns the error of a failed statement into lock.ErrUnavailable, unless the server refused it for a reason
// that asking again cannot cure. pgx.ErrNoRows passes: it is an answer.
func classify(err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	code, _ := postgres.SQLState(err)
	if code == "" {
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err) // network, pool or deadline: nobody answered
	}
	switch code[:2] {
	case "08", // connection
		"25", // read-only transaction: a standby, or a primary that was demoted
		"28", // the role may not log in
		"3D", // no such database
		"40", // rolled back: deadlock, serialization
		"42", // no such table, no privilege: not migrated yet
		"53", // out of connections, memory or disk
		"55", // lock not available, database being started
		"57", // shut down, starting, statement timeout
		"58", // input or output error
		"XX": // internal error of the server
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	return err
}

// maybeDone reports whether a statement that failed with err may have taken effect: it was sent, and
// the server did not say that it was rolled back.
func maybeDone(err error) bool {
	if err == nil || errors.Is(err, pgx.ErrNoRows) || pgconn.SafeToRetry(err) {
		return false
	}
	switch code, _ := postgres.SQLState(err); {
	case code == "":
		return true
	case code[:2] == "57", code[:2] == "08", code == "40003": // the server ended the session, perhaps after its commit
		return true
	}
	return false
}
