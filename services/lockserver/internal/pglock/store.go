// Package pglock is the lock backend on PostgreSQL. The database's clock is the only clock, one sequence is the only source of
// tokens, and each change is one statement.
package pglock

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/fencing"
	"railguard/services/lockserver/internal/lock"
	"railguard/services/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate creates or updates the tables of lockdb. ownerURL is the URL of a role that may create tables and roles.
func Migrate(ctx context.Context, ownerURL string) error {
	return postgres.Migrate(ctx, ownerURL, migrations, "lock")
}

// statementBudget bounds one statement, the wait for a connection included. Nothing that the server runs is longer than a
// row lock's queue.
const statementBudget = 3 * time.Second

// Store is a lock.Store on a PostgreSQL database.
type Store struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	news *news
}

var _ lock.Store = (*Store)(nil)

// New makes a store on the pool. It does not connect.
func New(pool *pgxpool.Pool, log *slog.Logger) *Store {
	return &Store{pool: pool, log: log, news: newNews()}
}

// own detaches a statement from its caller: a caller that hangs up must not tear a connection down or leave the outcome of a
// statement unknown.
func own(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), statementBudget)
}

// queryRow runs a statement of its own and reads its one row into dest. The error is that of pgx.
func (s *Store) queryRow(ctx context.Context, sql string, args []any, dest ...any) error {
	ctx, cancel := own(ctx)
	defer cancel()
	return s.pool.QueryRow(ctx, sql, args...).Scan(dest...)
}

// Acquire implements lock.Store. When the answer to the statement is lost it is sent once more: if it did take effect, the same
// owner gets the same token. Only a grant is believed then; "not granted" could still be overtaken by the
// first statement, if that one is only late.
func (s *Store) Acquire(ctx context.Context, r lock.Request) (lock.Grant, error) {
	a, err := s.tryAcquire(ctx, r)
	if maybeDone(err) {
		if again, err := s.tryAcquire(ctx, r); err == nil && again.token != nil {
			return again.grant(r), nil
		}
	}
	switch {
	case err != nil:
		return lock.Grant{}, classify(err)
	case a.token != nil:
		return a.grant(r), nil
	}
	return lock.Grant{}, s.refusal(ctx, r, a)
}

// attempt is the one row that sqlAcquire returns.
type attempt struct {
	token                 *int64 // nil when nothing was granted
	acquiredAt, expiresAt *time.Time

	prevOwner                   *string // the row under the lock; nil when it was free or was not there
	prevToken                   *int64
	prevAcquiredAt, prevExpires *time.Time

	sessionExpires *time.Time // nil without a session
	now            time.Time
}

func (s *Store) tryAcquire(ctx context.Context, r lock.Request) (a attempt, err error) {
	err = s.queryRow(ctx, sqlAcquire, []any{r.Key, r.OwnerID, nullable(r.SessionID), r.TTL}, &a.token, &a.acquiredAt, &a.expiresAt,
		&a.prevOwner, &a.prevToken, &a.prevAcquiredAt, &a.prevExpires, &a.sessionExpires, &a.now)
	return a, err
}

func (a attempt) grant(r lock.Request) lock.Grant {
	g := lock.Grant{Key: r.Key, OwnerID: r.OwnerID, SessionID: r.SessionID, Token: fencing.Token(*a.token),
		TTL: granted(r.TTL, *a.expiresAt, a.now), AcquiredAt: *a.acquiredAt, ExpiresAt: *a.expiresAt}
	g.Resumed = a.prevToken != nil && *a.prevToken == *a.token
	if a.prevOwner != nil && !g.Resumed {
		g.Lapsed = &lock.Freed{Key: r.Key, OwnerID: *a.prevOwner, Token: fencing.Token(*a.prevToken),
			Held: earlier(*a.prevExpires, a.now).Sub(*a.prevAcquiredAt)}
	}
	return g
}

// granted is the TTL to tell: what was asked for, or what is left of a lease that was longer already.
func granted(asked time.Duration, expiresAt, now time.Time) time.Duration {
	return max(asked, expiresAt.Sub(now).Truncate(time.Millisecond))
}

// refusal says why nothing was granted.
func (s *Store) refusal(ctx context.Context, r lock.Request, a attempt) error {
	switch {
	case r.SessionID != "" && a.sessionExpires == nil:
		return lock.ErrSessionUnknown
	case r.SessionID != "" && !a.sessionExpires.After(a.now):
		return lock.ErrSessionExpired
	case a.prevOwner != nil:
		return &lock.ContendedError{HolderOwnerID: *a.prevOwner, ExpiresAt: *a.prevExpires, Remaining: a.prevExpires.Sub(a.now)}
	}
	state, err := s.Get(ctx, r.Key) // another first acquirer of a new key was faster
	if err != nil {
		return err
	}
	return &lock.ContendedError{HolderOwnerID: state.OwnerID, ExpiresAt: state.ExpiresAt, Remaining: state.Remaining}
}

// Undo implements lock.Store.
func (s *Store) Undo(ctx context.Context, g lock.Grant) (lock.Freed, error) {
	return s.release(ctx, g.Key, g.Token, &g.ExpiresAt)
}

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, key string, token fencing.Token) (lock.Freed, error) {
	return s.release(ctx, key, token, nil)
}

func (s *Store) release(ctx context.Context, key string, token fencing.Token, expiresAt *time.Time) (lock.Freed, error) {
	f := lock.Freed{Key: key, Token: token}
	err := s.queryRow(ctx, sqlRelease, []any{key, int64(token), expiresAt}, &f.OwnerID, &f.Held)
	if errors.Is(err, pgx.ErrNoRows) {
		return lock.Freed{}, lock.ErrLost
	}
	if err != nil {
		return lock.Freed{}, classify(err)
	}
	s.news.freed(key)
	return f, nil
}

// Renew implements lock.Store.
func (s *Store) Renew(ctx context.Context, key string, token fencing.Token, ttl time.Duration) (lock.Grant, error) {
	var asked *time.Duration
	if ttl > 0 {
		asked = &ttl
	}
	g := lock.Grant{Key: key, Token: token, Resumed: true}
	var session *string
	var now time.Time
	err := s.queryRow(ctx, sqlRenew, []any{key, int64(token), asked}, &g.OwnerID, &session, &g.TTL, &g.AcquiredAt, &g.ExpiresAt, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return lock.Grant{}, lock.ErrLost
	}
	if err != nil {
		return lock.Grant{}, classify(err)
	}
	g.SessionID = text(session)
	g.TTL = granted(g.TTL, g.ExpiresAt, now)
	return g, nil
}

// Get implements lock.Store.
func (s *Store) Get(ctx context.Context, key string) (lock.State, error) {
	state := lock.State{Key: key}
	var owner, session *string
	var token int64
	var acquiredAt, expiresAt, now time.Time
	err := s.queryRow(ctx, sqlGet, []any{key}, &owner, &session, &token, &acquiredAt, &expiresAt, &now, &state.Held)
	if errors.Is(err, pgx.ErrNoRows) {
		return state, nil
	}
	if err != nil {
		return lock.State{}, classify(err)
	}
	state.Token = fencing.Token(token)
	if state.Held {
		state.OwnerID, state.SessionID = text(owner), text(session)
		state.AcquiredAt, state.ExpiresAt, state.Remaining = acquiredAt, expiresAt, expiresAt.Sub(now)
	}
	return state, nil
}

// Revoke implements lock.Store. A revocation whose answer was lost is looked up by its id, which is chosen here.
func (s *Store) Revoke(ctx context.Context, r lock.Revoke) (lock.Revocation, error) {
	v := lock.Revocation{ID: uuid.NewString(), Key: r.Key}
	var owner *string
	var floor *int64
	err := s.queryRow(ctx, sqlRevoke, []any{r.Key, int64(r.Expected), v.ID, r.Operator, r.Reason}, (*int64)(&v.Revoked), &owner, &floor)
	if maybeDone(err) && s.queryRow(ctx, sqlRevocation, []any{v.ID}, (*int64)(&v.Revoked), &owner, &floor) == nil {
		err = nil
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return lock.Revocation{}, lock.ErrNeverGranted
	case err != nil:
		return lock.Revocation{}, classify(err)
	case floor == nil:
		return lock.Revocation{}, &lock.UnexpectedTokenError{Current: v.Revoked}
	}
	v.OwnerID, v.Floor = text(owner), fencing.Token(*floor)
	s.news.freed(r.Key)
	return v, nil
}

// Advance implements lock.Store.
func (s *Store) Advance(ctx context.Context, above fencing.Token) (fencing.Token, error) {
	var floor int64
	err := s.queryRow(ctx, sqlAdvance, []any{int64(above + lock.AdvanceMargin)}, &floor)
	return fencing.Token(floor), classify(err)
}

// Ready implements lock.Store.
func (s *Store) Ready(ctx context.Context) error {
	var readOnly, allowed bool
	if err := s.pool.QueryRow(ctx, sqlReady).Scan(&readOnly, &allowed); err != nil {
		if code, _ := postgres.SQLState(err); code == "42P01" {
			return errors.New("lockdb is not migrated")
		}
		return errors.New("lockdb cannot be reached")
	}
	switch {
	case readOnly:
		return errors.New("lockdb is read-only")
	case !allowed:
		return errors.New("the role in LOCKDB_URL may not write to the lock tables")
	}
	return nil
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
