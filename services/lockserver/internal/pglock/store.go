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

// Acquire implements lock.Store. When the answer to the statement is lost it is sent once more: if it did take effect, the same
// owner gets the same token. Only a grant is believed then; "not granted" could still be overtaken by the
// first statement, if that one is only late.
func (s *Store) Acquire(ctx context.Context, r lock.Request) (lock.Grant, error) {
	g, err := s.acquireOnce(ctx, r)
	if !maybeDone(err) {
		return g, classify(err)
	}
	g, again := s.acquireOnce(ctx, r)
	if again == nil {
		return g, nil
	}
	return lock.Grant{}, classify(err)
}

func (s *Store) acquireOnce(ctx context.Context, r lock.Request) (lock.Grant, error) {
	ctx, cancel := own(ctx)
	defer cancel()
	var (
		token, prevToken                      *int64
		acquiredAt, expiresAt                 *time.Time
		prevOwner                             *string
		prevAcquired, prevExpires, mineExpire *time.Time
		now                                   time.Time
	)
	err := s.pool.QueryRow(ctx, sqlAcquire, r.Key, r.OwnerID, nullable(r.SessionID), r.TTL).Scan(&token, &acquiredAt, &expiresAt,
		&prevOwner, &prevToken, &prevAcquired, &prevExpires, &mineExpire, &now)
	switch {
	case err != nil:
		return lock.Grant{}, err
	case token != nil:
		g := lock.Grant{Key: r.Key, OwnerID: r.OwnerID, SessionID: r.SessionID, Token: fencing.Token(*token),
			TTL: max(r.TTL, expiresAt.Sub(now)).Truncate(time.Millisecond), AcquiredAt: *acquiredAt, ExpiresAt: *expiresAt}
		g.Resumed = prevToken != nil && *prevToken == *token
		if prevOwner != nil && !g.Resumed {
			g.Lapsed = &lock.Freed{Key: r.Key, OwnerID: *prevOwner, Token: fencing.Token(*prevToken), Held: earlier(*prevExpires, now).Sub(*prevAcquired)}
		}
		return g, nil
	case r.SessionID != "" && mineExpire == nil:
		return lock.Grant{}, lock.ErrSessionUnknown
	case r.SessionID != "" && !mineExpire.After(now):
		return lock.Grant{}, lock.ErrSessionExpired
	case prevOwner != nil:
		return lock.Grant{}, &lock.ContendedError{HolderOwnerID: *prevOwner, ExpiresAt: *prevExpires, Remaining: prevExpires.Sub(now)}
	default: // another first acquirer of a new key was faster
		state, err := s.Get(ctx, r.Key)
		if err != nil {
			return lock.Grant{}, &lock.ContendedError{}
		}
		return lock.Grant{}, &lock.ContendedError{HolderOwnerID: state.OwnerID, ExpiresAt: state.ExpiresAt, Remaining: state.Remaining}
	}
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
	ctx, cancel := own(ctx)
	defer cancel()
	f := lock.Freed{Key: key, Token: token}
	err := s.pool.QueryRow(ctx, sqlRelease, key, int64(token), expiresAt).Scan(&f.OwnerID, &f.Held)
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
	ctx, cancel := own(ctx)
	defer cancel()
	var asked *time.Duration
	if ttl > 0 {
		asked = &ttl
	}
	g := lock.Grant{Key: key, Token: token, Resumed: true}
	var session *string
	var now time.Time
	err := s.pool.QueryRow(ctx, sqlRenew, key, int64(token), asked).Scan(&g.OwnerID, &session, &g.TTL, &g.AcquiredAt, &g.ExpiresAt, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return lock.Grant{}, lock.ErrLost
	}
	if err != nil {
		return lock.Grant{}, classify(err)
	}
	g.SessionID = text(session)
	g.TTL = max(g.TTL, g.ExpiresAt.Sub(now)).Truncate(time.Millisecond)
	return g, nil
}

// Get implements lock.Store.
func (s *Store) Get(ctx context.Context, key string) (lock.State, error) {
	ctx, cancel := own(ctx)
	defer cancel()
	state := lock.State{Key: key}
	var owner, session *string
	var token int64
	var acquiredAt, expiresAt, now time.Time
	err := s.pool.QueryRow(ctx, sqlGet, key).Scan(&owner, &session, &token, &acquiredAt, &expiresAt, &now, &state.Held)
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
	err := s.revokeOnce(ctx, r, &v)
	if maybeDone(err) && s.readRevocation(ctx, &v) == nil {
		err = nil
	}
	if err != nil {
		return lock.Revocation{}, classify(err)
	}
	s.news.freed(r.Key)
	return v, nil
}

func (s *Store) revokeOnce(ctx context.Context, r lock.Revoke, v *lock.Revocation) error {
	ctx, cancel := own(ctx)
	defer cancel()
	var owner *string
	var last int64
	var floor *int64
	err := s.pool.QueryRow(ctx, sqlRevoke, r.Key, int64(r.Expected), v.ID, r.Operator, r.Reason).Scan(&last, &owner, &floor)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return lock.ErrNeverGranted
	case err != nil:
		return err
	case floor == nil:
		return &lock.UnexpectedTokenError{Current: fencing.Token(last)}
	}
	v.OwnerID, v.Revoked, v.Floor = text(owner), fencing.Token(last), fencing.Token(*floor)
	return nil
}

func (s *Store) readRevocation(ctx context.Context, v *lock.Revocation) error {
	ctx, cancel := own(ctx)
	defer cancel()
	var owner *string
	err := s.pool.QueryRow(ctx, sqlRevocation, v.ID).Scan((*int64)(&v.Revoked), &owner, (*int64)(&v.Floor))
	v.OwnerID = text(owner)
	return err
}

// Advance implements lock.Store.
func (s *Store) Advance(ctx context.Context, above fencing.Token) (fencing.Token, error) {
	ctx, cancel := own(ctx)
	defer cancel()
	var floor int64
	err := s.pool.QueryRow(ctx, sqlAdvance, int64(above+lock.AdvanceMargin)).Scan(&floor)
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
