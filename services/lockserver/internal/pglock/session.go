package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"railguard/services/lockserver/internal/lock"
)

// CreateSession implements lock.Store.
func (s *Store) CreateSession(ctx context.Context, ownerID string, ttl time.Duration) (lock.Session, error) {
	session := lock.Session{ID: uuid.NewString(), OwnerID: ownerID}
	err := s.queryRow(ctx, sqlCreateSession, []any{session.ID, ownerID, ttl}, &session.TTL, &session.CreatedAt, &session.ExpiresAt)
	if err != nil {
		return lock.Session{}, classify(err)
	}
	return session, nil
}

// Heartbeat implements lock.Store.
func (s *Store) Heartbeat(ctx context.Context, ownerID, sessionID string) (lock.Session, error) {
	session := lock.Session{ID: sessionID, OwnerID: ownerID}
	err := s.queryRow(ctx, sqlHeartbeat, []any{sessionID, ownerID}, &session.TTL, &session.CreatedAt, &session.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return lock.Session{}, s.whyNoSession(ctx, ownerID, sessionID)
	}
	if err != nil {
		return lock.Session{}, classify(err)
	}
	return session, nil
}

// EndSession implements lock.Store. If the second statement fails the locks are free all the same, because their
// session is gone, and the sweep reports them.
func (s *Store) EndSession(ctx context.Context, ownerID, sessionID string) ([]lock.Freed, error) {
	ctx, cancel := own(ctx)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sqlEndSession, sessionID, ownerID)
	if err != nil {
		return nil, classify(err)
	}
	if tag.RowsAffected() == 0 {
		return nil, s.whyNoSession(ctx, ownerID, sessionID)
	}
	freed, err := s.collect(ctx, sqlFreeSession, sessionID)
	if err != nil {
		s.log.WarnContext(ctx, "session_locks_left_to_sweep", "error", err.Error())
	}
	return freed, nil
}

func (s *Store) whyNoSession(ctx context.Context, ownerID, sessionID string) error {
	var exists bool
	if err := s.queryRow(ctx, sqlSessionExists, []any{sessionID, ownerID}, &exists); err != nil {
		return classify(err)
	}
	if exists {
		return lock.ErrSessionExpired
	}
	return lock.ErrSessionUnknown
}

// sweepBatch bounds one sweep, so that its row locks are short.
const sweepBatch = 500

// Sweep implements lock.Store.
func (s *Store) Sweep(ctx context.Context) (lock.Swept, error) {
	ctx, cancel := own(ctx)
	defer cancel()
	lapsed, err := s.collect(ctx, sqlSweep, sweepBatch)
	if err != nil {
		return lock.Swept{}, classify(err)
	}
	swept := lock.Swept{Lapsed: lapsed, More: len(lapsed) == sweepBatch}
	if err := s.pool.QueryRow(ctx, sqlHeld).Scan(&swept.Held); err != nil {
		return swept, classify(err)
	}
	_, err = s.pool.Exec(ctx, sqlPruneSessions)
	return swept, classify(err)
}

// collect runs a statement that returns freed grants, and announces them.
func (s *Store) collect(ctx context.Context, sql string, args ...any) ([]lock.Freed, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	freed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (lock.Freed, error) {
		var f lock.Freed
		err := row.Scan(&f.Key, &f.OwnerID, (*int64)(&f.Token), &f.Held)
		return f, err
	})
	for _, f := range freed {
		s.news.freed(f.Key)
	}
	return freed, err
}
