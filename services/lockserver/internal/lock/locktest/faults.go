package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/lockserver/internal/lock"
)

func lostAnswerToAcquire(t *testing.T, h Harness) {
	h.LoseAnswers(1)
	g, err := h.Store.Acquire(t.Context(), h.request("a"))
	if err != nil { // unknown is allowed, "not granted" is not
		require.ErrorIs(t, err, lock.ErrUnavailable)
	}
	state, getErr := h.Other.Get(t.Context(), key)
	require.NoError(t, getErr)
	require.True(t, state.Held, "the statement did take effect")
	again := h.acquire(t, "a")
	require.Equal(t, state.Token, again.Token)
	if err == nil {
		require.Equal(t, state.Token, g.Token)
	}
}

func lostAnswersToAcquire(t *testing.T, h Harness) {
	h.LoseAnswers(2)
	_, err := h.Store.Acquire(t.Context(), h.request("a"))
	require.ErrorIs(t, err, lock.ErrUnavailable)
	state, err := h.Other.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "a", state.OwnerID)
	require.Equal(t, state.Token, h.acquire(t, "a").Token, "the same owner asks again and gets the same token")

	for _, n := range []int{1, 2} { // now one that is refused
		h.LoseAnswers(n)
		_, err = h.Store.Acquire(t.Context(), h.request("b"))
		require.ErrorIs(t, err, lock.ErrUnavailable, "what was sent first may be late and still be granted")
	}
}

func lostAnswerToRenew(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	h.LoseAnswers(1)
	_, err := h.Store.Renew(t.Context(), key, a.Token, h.TTL)
	if err != nil {
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, lock.ErrLost)
	}
	_, err = h.Store.Renew(t.Context(), key, a.Token, h.TTL)
	require.NoError(t, err)
}

func lostAnswerToRelease(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	h.LoseAnswers(1)
	_, err := h.Store.Release(t.Context(), key, a.Token)
	if err != nil {
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, lock.ErrLost)
	}
	require.Greater(t, h.acquire(t, "b").Token, a.Token)
}

func lostAnswerToRevoke(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	h.LoseAnswers(1)
	v, err := h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "the holder hangs"})
	if err != nil {
		require.ErrorIs(t, err, lock.ErrUnavailable)
	} else {
		require.Equal(t, a.Token, v.Revoked)
		require.Greater(t, v.Floor, a.Token)
		require.Equal(t, "a", v.OwnerID)
	}
	h.lost(t, a.Token)
	b := h.acquire(t, "b")
	require.Greater(t, b.Token, v.Floor)
}

// unreachable checks that a fault is never taken for an answer.
func unreachable(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	s := h.open(t, "a")
	require.NoError(t, h.Store.Ready(t.Context()))
	h.Cut()
	ctx := t.Context()
	_, acquire := h.Store.Acquire(ctx, h.request("a"))
	_, other := h.Store.Acquire(ctx, h.request("b"))
	_, renew := h.Store.Renew(ctx, key, a.Token, h.TTL)
	_, release := h.Store.Release(ctx, key, a.Token)
	_, undo := h.Store.Undo(ctx, a)
	_, get := h.Store.Get(ctx, key)
	_, revoke := h.Store.Revoke(ctx, lock.Revoke{Key: key, Operator: "op", Reason: "the holder hangs"})
	_, advance := h.Store.Advance(ctx, 1)
	_, create := h.Store.CreateSession(ctx, "a", h.TTL)
	_, beat := h.Store.Heartbeat(ctx, "a", s.ID)
	_, end := h.Store.EndSession(ctx, "a", s.ID)
	_, sweep := h.Store.Sweep(ctx)
	for name, err := range map[string]error{"acquire": acquire, "another's acquire": other, "renew": renew, "release": release, "undo": undo,
		"get": get, "revoke": revoke, "advance": advance, "create session": create, "heartbeat": beat, "end session": end, "sweep": sweep} {
		require.ErrorIs(t, err, lock.ErrUnavailable, name)
		require.NotErrorIs(t, err, lock.ErrLost, name)
	}
	require.Error(t, h.Store.Ready(ctx))
	h.Mend()
	eventually(t, func() bool { return h.Store.Ready(ctx) == nil }, "ready again by itself")
	require.Equal(t, a.Token, h.acquire(t, "a").Token)
	_, err := h.Store.Heartbeat(ctx, "a", s.ID)
	require.NoError(t, err)
}
