package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/fencing"
	"railguard/services/lockserver/internal/lock"
)

func firstGrant(t *testing.T, h Harness) {
	g := h.acquire(t, "a")
	require.Equal(t, key, g.Key)
	require.Equal(t, "a", g.OwnerID)
	require.False(t, g.Resumed)
	require.Nil(t, g.Lapsed)
	require.GreaterOrEqual(t, g.TTL, h.TTL)
	require.GreaterOrEqual(t, g.ExpiresAt.Sub(g.AcquiredAt), h.TTL)
}

func anotherOwnerIsContended(t *testing.T, h Harness) {
	g := h.acquire(t, "a")
	h.contended(t, "b", "a")
	_, err := h.Store.Renew(t.Context(), key, g.Token, h.TTL)
	require.NoError(t, err, "the attempt of another must not harm the holder")
	_, err = h.Store.Acquire(t.Context(), lock.Request{Key: key + "0", OwnerID: "b", TTL: h.TTL})
	require.NoError(t, err, "another key is another lock")
}

func takeoverMints(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	h.lapse()
	b := h.acquire(t, "b")
	require.Greater(t, b.Token, a.Token, "the new holder must not get the dead holder's token")
	h.lost(t, a.Token)
	h.contended(t, "a", "b")
	h.lapse()
	c := h.acquire(t, "c")
	require.Greater(t, c.Token, b.Token)
}

func grantAfterReleaseMints(t *testing.T, h Harness) {
	last := fencing.Token(0)
	for _, owner := range []string{"a", "b", "a", "a"} {
		g := h.acquire(t, owner)
		require.Greater(t, g.Token, last)
		require.False(t, g.Resumed)
		last = g.Token
		freed, err := h.Store.Release(t.Context(), key, g.Token)
		require.NoError(t, err)
		require.Equal(t, owner, freed.OwnerID)
		require.Equal(t, g.Token, freed.Token)
		require.GreaterOrEqual(t, freed.Held, time.Duration(0))
	}
}

func sameOwnerReplay(t *testing.T, h Harness) {
	first := h.acquire(t, "a")
	h.Pass(h.TTL / 2)
	again := h.acquire(t, "a")
	require.Equal(t, first.Token, again.Token)
	require.True(t, again.Resumed)
	require.True(t, again.ExpiresAt.After(first.ExpiresAt))
	h.Pass(h.TTL * 3 / 4)
	h.contended(t, "b", "a")

	short := h.request("a")
	short.TTL = h.TTL / 10
	g, err := h.Store.Acquire(t.Context(), short)
	require.NoError(t, err)
	require.Equal(t, first.Token, g.Token)
	require.True(t, g.ExpiresAt.After(again.ExpiresAt), "asking again never shortens the lease")
	require.GreaterOrEqual(t, g.TTL, short.TTL)
}

func sameOwnerAfterLapse(t *testing.T, h Harness) {
	first := h.acquire(t, "a")
	h.lapse()
	again := h.acquire(t, "a")
	require.Greater(t, again.Token, first.Token)
	require.False(t, again.Resumed)
	h.lost(t, first.Token)
}

func renewAtTheEdge(t *testing.T, h Harness) {
	g := h.acquire(t, "a")
	for range 3 {
		h.Pass(h.TTL * 9 / 10)
		renewed, err := h.Store.Renew(t.Context(), key, g.Token, h.TTL)
		require.NoError(t, err)
		require.Equal(t, g.Token, renewed.Token)
		require.Equal(t, "a", renewed.OwnerID)
		require.True(t, renewed.ExpiresAt.After(g.ExpiresAt))
		require.GreaterOrEqual(t, renewed.TTL, h.TTL)
		g = renewed
	}
	h.contended(t, "b", "a")
	h.Pass(h.TTL * 9 / 10)
	_, err := h.Store.Renew(t.Context(), key, g.Token, 0)
	require.NoError(t, err)
	h.Pass(h.TTL * 9 / 10)
	h.contended(t, "b", "a")
	h.Pass(h.TTL / 5)
	h.lost(t, g.Token)
}

func renewAfterLapse(t *testing.T, h Harness) {
	g := h.acquire(t, "a")
	h.lapse()
	h.lost(t, g.Token)
	require.Greater(t, h.acquire(t, "a").Token, g.Token)
}

func renewNeverShortens(t *testing.T, h Harness) {
	g := h.acquire(t, "a")
	renewed, err := h.Store.Renew(t.Context(), key, g.Token, h.TTL/10)
	require.NoError(t, err)
	require.True(t, renewed.ExpiresAt.After(g.ExpiresAt))
	require.GreaterOrEqual(t, renewed.TTL, h.TTL/10)
	h.Pass(h.TTL / 2)
	h.contended(t, "b", "a")
}

func matchKeyAndToken(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	other, err := h.Store.Acquire(t.Context(), lock.Request{Key: "payout:acct-2", OwnerID: "a", TTL: h.TTL})
	require.NoError(t, err)
	for _, wrong := range []fencing.Token{a.Token - 1, a.Token + 1, other.Token, fencing.MaxFloor} {
		if wrong == a.Token || !wrong.Valid() {
			continue
		}
		h.lost(t, wrong)
	}
	_, err = h.Store.Renew(t.Context(), "payout:nobody", a.Token, h.TTL)
	require.ErrorIs(t, err, lock.ErrLost)
	h.contended(t, "b", "a")
}

func releaseIsCompareAndFree(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	_, err := h.Store.Release(t.Context(), key, a.Token)
	require.NoError(t, err)
	h.lost(t, a.Token)
	b := h.acquire(t, "b")
	h.lost(t, a.Token)
	h.contended(t, "c", "b")
	_, err = h.Store.Release(t.Context(), key, b.Token)
	require.NoError(t, err)
}

func releaseAfterLapse(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	h.lapse()
	_, err := h.Store.Release(t.Context(), key, a.Token)
	require.ErrorIs(t, err, lock.ErrLost)
}

func undoFrees(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	freed, err := h.Store.Undo(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, a.Token, freed.Token)
	_, err = h.Store.Undo(t.Context(), a)
	require.ErrorIs(t, err, lock.ErrLost)
	require.Greater(t, h.acquire(t, "b").Token, a.Token)
	_, err = h.Store.Undo(t.Context(), a)
	require.ErrorIs(t, err, lock.ErrLost)
	h.contended(t, "c", "b")
}

func undoLeaves(t *testing.T, h Harness) {
	for name, again := range map[string]func(lock.Grant) error{
		"asked again": func(lock.Grant) error {
			_, err := h.Other.Acquire(t.Context(), h.request("a"))
			return err
		},
		"asked again for less": func(lock.Grant) error {
			r := h.request("a")
			r.TTL /= 10
			_, err := h.Other.Acquire(t.Context(), r)
			return err
		},
		"renewed": func(g lock.Grant) error {
			_, err := h.Other.Renew(t.Context(), key, g.Token, 0)
			return err
		},
	} {
		g := h.acquire(t, "a")
		require.NoError(t, again(g), name)
		_, err := h.Store.Undo(t.Context(), g)
		require.ErrorIs(t, err, lock.ErrLost, name)
		h.contended(t, "b", "a")
	}
}

func revokeMintsAFloor(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	v, err := h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "the holder hangs"})
	require.NoError(t, err)
	require.Equal(t, key, v.Key)
	require.Equal(t, "a", v.OwnerID)
	require.Equal(t, a.Token, v.Revoked)
	require.Greater(t, v.Floor, a.Token)
	require.NotEmpty(t, v.ID)
	h.lost(t, a.Token)
	h.lost(t, v.Floor)
	again := h.acquire(t, "a")
	require.Greater(t, again.Token, v.Floor, "no grant carries a token at or below the floor, the former holder's neither")

	second, err := h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "it hangs again"})
	require.NoError(t, err)
	require.Greater(t, second.Floor, again.Token)
	require.NotEqual(t, v.ID, second.ID)
	require.Greater(t, h.acquire(t, "b").Token, second.Floor)
}

func revokeCompares(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	_, err := h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "the holder hangs", Expected: a.Token + 1})
	var unexpected *lock.UnexpectedTokenError
	require.ErrorAs(t, err, &unexpected)
	require.Equal(t, a.Token, unexpected.Current)
	h.contended(t, "b", "a")
	_, err = h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "the holder hangs", Expected: a.Token})
	require.NoError(t, err)
	h.lost(t, a.Token)
}

func revokeFreeKey(t *testing.T, h Harness) {
	_, err := h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "out of curiosity"})
	require.ErrorIs(t, err, lock.ErrNeverGranted)
	a := h.acquire(t, "a")
	_, err = h.Store.Release(t.Context(), key, a.Token)
	require.NoError(t, err)
	v, err := h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "its holder may wake"})
	require.NoError(t, err)
	require.Equal(t, a.Token, v.Revoked)
	require.Empty(t, v.OwnerID)
	require.Greater(t, v.Floor, a.Token)
	require.Greater(t, h.acquire(t, "b").Token, v.Floor)
}

func advanceLifts(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	above := a.Token + 12345
	floor, err := h.Store.Advance(t.Context(), above)
	require.NoError(t, err)
	require.GreaterOrEqual(t, floor, above+lock.AdvanceMargin)
	_, err = h.Store.Release(t.Context(), key, a.Token)
	require.NoError(t, err)
	require.Greater(t, h.acquire(t, "b").Token, floor)
	g, err := h.Other.Acquire(t.Context(), lock.Request{Key: "payout:new", OwnerID: "b", TTL: h.TTL})
	require.NoError(t, err)
	require.Greater(t, g.Token, floor)
	v, err := h.Store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "the holder hangs"})
	require.NoError(t, err)
	require.Greater(t, v.Floor, floor)

	top, err := h.Store.Advance(t.Context(), fencing.MaxFloor)
	require.NoError(t, err)
	require.Greater(t, h.acquire(t, "c").Token, top)
}

func advanceNeverLowers(t *testing.T, h Harness) {
	high, err := h.Store.Advance(t.Context(), 1_000_000)
	require.NoError(t, err)
	a := h.acquire(t, "a")
	low, err := h.Store.Advance(t.Context(), 1)
	require.NoError(t, err)
	require.GreaterOrEqual(t, low, high)
	require.GreaterOrEqual(t, low, a.Token, "the floor covers every token issued before")
	_, err = h.Store.Release(t.Context(), key, a.Token)
	require.NoError(t, err)
	b := h.acquire(t, "b")
	require.Greater(t, b.Token, a.Token)
	require.Greater(t, b.Token, low)
}

func advanceLeavesLiveGrants(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	_, err := h.Store.Advance(t.Context(), 1_000_000)
	require.NoError(t, err)
	require.Equal(t, a.Token, h.acquire(t, "a").Token)
	_, err = h.Store.Renew(t.Context(), key, a.Token, h.TTL)
	require.NoError(t, err)
	h.contended(t, "b", "a")
	_, err = h.Store.Release(t.Context(), key, a.Token)
	require.NoError(t, err)
}

func sweepReports(t *testing.T, h Harness) {
	a := h.acquire(t, "a")
	swept, err := h.Store.Sweep(t.Context())
	require.NoError(t, err)
	require.Empty(t, swept.Lapsed)
	require.EqualValues(t, 1, swept.Held)
	h.lapse()
	var reports []lock.Freed
	for _, store := range []lock.Store{h.Store, h.Other, h.Store} {
		swept, err = store.Sweep(t.Context())
		require.NoError(t, err)
		reports = append(reports, swept.Lapsed...)
		require.Zero(t, swept.Held)
	}
	require.Len(t, reports, 1, "a grant lapses once")
	require.Equal(t, key, reports[0].Key)
	require.Equal(t, "a", reports[0].OwnerID)
	require.Equal(t, a.Token, reports[0].Token)
	b := h.acquire(t, "b")
	require.Nil(t, b.Lapsed)
	require.Greater(t, b.Token, a.Token)
}

func getTells(t *testing.T, h Harness) {
	state, err := h.Store.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, lock.State{Key: key}, state)
	a := h.acquire(t, "a")
	state, err = h.Store.Get(t.Context(), key)
	require.NoError(t, err)
	require.True(t, state.Held)
	require.Equal(t, "a", state.OwnerID)
	require.Equal(t, a.Token, state.Token)
	require.WithinDuration(t, a.ExpiresAt, state.ExpiresAt, 0)
	require.Positive(t, state.Remaining)
	h.lapse()
	state, err = h.Store.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, lock.State{Key: key, Token: a.Token}, state, "a lapsed grant is over, swept or not")
}

func tokensRise(t *testing.T, h Harness) {
	last := fencing.Token(0)
	for i, name := range []string{"k1", "k2", "k1", "k3", "k2"} {
		store := h.Store
		if i%2 == 1 {
			store = h.Other
		}
		g, err := store.Acquire(t.Context(), lock.Request{Key: name, OwnerID: "a", TTL: h.TTL})
		require.NoError(t, err)
		require.Greater(t, g.Token, last)
		last = g.Token
		_, err = store.Release(t.Context(), name, g.Token)
		require.NoError(t, err)
	}
}
