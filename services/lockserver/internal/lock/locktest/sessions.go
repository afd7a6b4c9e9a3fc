package locktest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"railguard/services/lockserver/internal/lock"
)

// open opens a session of the owner that lives for one TTL.
func (h Harness) open(t *testing.T, owner string) lock.Session {
	t.Helper()
	s, err := h.Store.CreateSession(t.Context(), owner, h.TTL)
	require.NoError(t, err)
	return s
}

// inSession acquires the key in a session, with a lease that outlives it.
func (h Harness) inSession(t *testing.T, s lock.Session) (lock.Grant, error) {
	t.Helper()
	r := h.request(s.OwnerID)
	r.SessionID, r.TTL = s.ID, 10*h.TTL
	return h.Store.Acquire(t.Context(), r)
}

func sessionHeartbeat(t *testing.T, h Harness) {
	s := h.open(t, "a")
	require.Equal(t, "a", s.OwnerID)
	require.GreaterOrEqual(t, s.TTL, h.TTL)
	require.GreaterOrEqual(t, s.ExpiresAt.Sub(s.CreatedAt), h.TTL)
	for range 3 {
		h.Pass(h.TTL * 9 / 10)
		beat, err := h.Other.Heartbeat(t.Context(), "a", s.ID)
		require.NoError(t, err)
		require.Equal(t, s.ID, beat.ID)
		require.True(t, beat.ExpiresAt.After(s.ExpiresAt))
		require.WithinDuration(t, s.CreatedAt, beat.CreatedAt, 0)
	}
	h.lapse()
	_, err := h.Store.Heartbeat(t.Context(), "a", s.ID)
	require.ErrorIs(t, err, lock.ErrSessionExpired)
}

func sessionErrors(t *testing.T, h Harness) {
	unknown := uuid.NewString()
	_, err := h.Store.Heartbeat(t.Context(), "a", unknown)
	require.ErrorIs(t, err, lock.ErrSessionUnknown)
	_, err = h.Store.EndSession(t.Context(), "a", unknown)
	require.ErrorIs(t, err, lock.ErrSessionUnknown)

	ended := h.open(t, "a")
	_, err = h.Store.EndSession(t.Context(), "a", ended.ID)
	require.NoError(t, err)
	_, err = h.Store.Heartbeat(t.Context(), "a", ended.ID)
	require.ErrorIs(t, err, lock.ErrSessionUnknown)

	lapsed := h.open(t, "a")
	h.lapse()
	for range 2 { // sweeping forgets nothing yet
		_, err = h.Store.Heartbeat(t.Context(), "a", lapsed.ID)
		require.ErrorIs(t, err, lock.ErrSessionExpired)
		_, err = h.Store.EndSession(t.Context(), "a", lapsed.ID)
		require.ErrorIs(t, err, lock.ErrSessionExpired)
		_, err = h.Store.Sweep(t.Context())
		require.NoError(t, err)
	}
}

func sessionEnd(t *testing.T, h Harness) {
	s := h.open(t, "a")
	g, err := h.inSession(t, s)
	require.NoError(t, err)
	require.Equal(t, s.ID, g.SessionID)
	state, err := h.Store.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, s.ID, state.SessionID)
	h.contended(t, "b", "a")

	freed, err := h.Store.EndSession(t.Context(), "a", s.ID)
	require.NoError(t, err)
	require.Len(t, freed, 1)
	require.Equal(t, key, freed[0].Key)
	require.Equal(t, g.Token, freed[0].Token)
	require.Equal(t, "a", freed[0].OwnerID)
	h.lost(t, g.Token)
	require.Greater(t, h.acquire(t, "b").Token, g.Token)
}

func sessionLapse(t *testing.T, h Harness) {
	s := h.open(t, "a")
	g, err := h.inSession(t, s)
	require.NoError(t, err)
	h.lapse()
	state, err := h.Store.Get(t.Context(), key)
	require.NoError(t, err)
	require.False(t, state.Held)
	h.lost(t, g.Token)
	b := h.acquire(t, "b")
	require.Greater(t, b.Token, g.Token, "a session that lapsed is taken over like a lease that lapsed")
	_, err = h.Store.Heartbeat(t.Context(), "a", s.ID)
	require.ErrorIs(t, err, lock.ErrSessionExpired, "it does not come back")
	h.contended(t, "a", "b")

	second := h.open(t, "c")
	r := lock.Request{Key: "payout:acct-2", OwnerID: "c", SessionID: second.ID, TTL: 10 * h.TTL}
	g, err = h.Store.Acquire(t.Context(), r)
	require.NoError(t, err)
	h.lapse()
	swept, err := h.Store.Sweep(t.Context())
	require.NoError(t, err)
	var tokens []any
	for _, f := range swept.Lapsed {
		tokens = append(tokens, f.Token)
	}
	require.Contains(t, tokens, any(g.Token))
}

func sessionKeepsLocks(t *testing.T, h Harness) {
	s := h.open(t, "a")
	g, err := h.inSession(t, s)
	require.NoError(t, err)
	for range 3 {
		h.Pass(h.TTL * 9 / 10)
		_, err := h.Store.Heartbeat(t.Context(), "a", s.ID)
		require.NoError(t, err)
		_, err = h.Store.Sweep(t.Context())
		require.NoError(t, err)
		h.contended(t, "b", "a")
	}
	renewed, err := h.Store.Renew(t.Context(), key, g.Token, h.TTL)
	require.NoError(t, err)
	require.Equal(t, s.ID, renewed.SessionID)
	again, err := h.inSession(t, s)
	require.NoError(t, err)
	require.Equal(t, g.Token, again.Token)
}

func acquireInDeadSession(t *testing.T, h Harness) {
	s := h.open(t, "a")
	h.lapse()
	_, err := h.inSession(t, s)
	require.ErrorIs(t, err, lock.ErrSessionExpired)
	_, err = h.inSession(t, lock.Session{ID: uuid.NewString(), OwnerID: "a"})
	require.ErrorIs(t, err, lock.ErrSessionUnknown)
	h.acquire(t, "b")
	_, err = h.inSession(t, s)
	require.ErrorIs(t, err, lock.ErrSessionExpired, "also while another holds the key")
}

func sessionOfOthers(t *testing.T, h Harness) {
	s := h.open(t, "a")
	_, err := h.Store.Heartbeat(t.Context(), "b", s.ID)
	require.ErrorIs(t, err, lock.ErrSessionUnknown)
	_, err = h.Store.EndSession(t.Context(), "b", s.ID)
	require.ErrorIs(t, err, lock.ErrSessionUnknown)
	_, err = h.inSession(t, lock.Session{ID: s.ID, OwnerID: "b"})
	require.ErrorIs(t, err, lock.ErrSessionUnknown)
	_, err = h.Store.Heartbeat(t.Context(), "a", s.ID)
	require.NoError(t, err)
}

func endedSessionFreesNothingNewer(t *testing.T, h Harness) {
	s := h.open(t, "a")
	g, err := h.inSession(t, s)
	require.NoError(t, err)
	_, err = h.Store.Release(t.Context(), key, g.Token)
	require.NoError(t, err)
	b := h.acquire(t, "b")
	freed, err := h.Store.EndSession(t.Context(), "a", s.ID)
	require.NoError(t, err)
	require.Empty(t, freed)
	_, err = h.Store.Renew(t.Context(), key, b.Token, 0)
	require.NoError(t, err)
}

func replayLeavesSession(t *testing.T, h Harness) {
	s := h.open(t, "a")
	g, err := h.inSession(t, s)
	require.NoError(t, err)
	again := h.acquire(t, "a") // asks without the session
	require.Equal(t, g.Token, again.Token)
	_, err = h.Store.EndSession(t.Context(), "a", s.ID)
	require.NoError(t, err)
	h.contended(t, "b", "a")
}
