package locktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/lockserver/internal/lock"
)

// queue makes a server's queue over a store, fed with the store's news until the test ends.
func queue(t *testing.T, store lock.Store, maxWaiters int) *lock.Queue {
	q := lock.NewQueue(store, maxWaiters)
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		store.Watch(ctx, q.Freed)
	}()
	t.Cleanup(func() {
		q.Close()
		cancel()
		<-watched
	})
	return q
}

// answer is what a waiter got.
type answer struct {
	owner string
	grant lock.Grant
	err   error
}

// wait makes owner wait for the key, and returns once it stands in line as the place-th.
func (h Harness) wait(t *testing.T, q *lock.Queue, ctx context.Context, owner string, place int, got chan<- answer) {
	t.Helper()
	go func() {
		g, err := q.Acquire(ctx, h.request(owner), patience)
		got <- answer{owner, g, err}
	}()
	eventually(t, func() bool { return q.Waiting() == place }, owner+" stands in line")
}

func receive(t *testing.T, got <-chan answer) answer {
	t.Helper()
	select {
	case a := <-got:
		return a
	case <-time.After(patience):
		require.FailNow(t, "no waiter was answered")
		return answer{}
	}
}

func (h Harness) release(t *testing.T, g lock.Grant) {
	t.Helper()
	_, err := h.Store.Release(t.Context(), key, g.Token)
	require.NoError(t, err)
}

func waitersInOrder(t *testing.T, h Harness) {
	q := queue(t, h.Store, 64)
	holder := h.acquire(t, "holder")
	got := make(chan answer, 8)
	for i := range 6 {
		h.wait(t, q, t.Context(), fmt.Sprint("w", i), i+1, got)
	}
	last := holder
	for i := range 6 {
		h.release(t, last)
		a := receive(t, got)
		require.NoError(t, a.err)
		require.Equal(t, fmt.Sprint("w", i), a.owner)
		require.Greater(t, a.grant.Token, last.Token)
		last = a.grant
	}
	require.Zero(t, q.Waiting())
	require.Empty(t, got)
}

func waiterServedOnLapse(t *testing.T, h Harness) {
	q := queue(t, h.Store, 64)
	holder := h.acquire(t, "holder")
	got := make(chan answer, 1)
	h.wait(t, q, t.Context(), "w", 1, got)
	h.lapse()
	a := receive(t, got)
	require.NoError(t, a.err)
	require.Greater(t, a.grant.Token, holder.Token)
}

func waiterOfAnotherServer(t *testing.T, h Harness) {
	queue(t, h.Store, 64)
	q := queue(t, h.Other, 64)
	holder := h.acquire(t, "holder")
	got := make(chan answer, 1)
	h.wait(t, q, t.Context(), "w", 1, got)
	h.release(t, holder)
	a := receive(t, got)
	require.NoError(t, a.err)
	require.Greater(t, a.grant.Token, holder.Token)
}

func waiterTimesOut(t *testing.T, h Harness) {
	q := queue(t, h.Store, 64)
	h.acquire(t, "holder")
	for _, wait := range []time.Duration{0, 30 * time.Millisecond} {
		_, err := q.Acquire(t.Context(), h.request("w"), wait)
		var contended *lock.ContendedError
		require.ErrorAs(t, err, &contended)
		require.Equal(t, "holder", contended.HolderOwnerID)
		require.Zero(t, q.Waiting())
	}
	got := make(chan answer, 1)
	h.wait(t, q, t.Context(), "first", 1, got)
	for _, wait := range []time.Duration{0, 30 * time.Millisecond} {
		_, err := q.Acquire(t.Context(), h.request("second"), wait)
		var contended *lock.ContendedError
		require.ErrorAs(t, err, &contended, "behind another waiter")
		require.Equal(t, "holder", contended.HolderOwnerID)
	}
}

func waiterDies(t *testing.T, h Harness) {
	q := queue(t, h.Store, 64)
	holder := h.acquire(t, "holder")
	got := make(chan answer, 4)
	first, hangUp := context.WithCancel(t.Context())
	middle, hangUpToo := context.WithCancel(t.Context())
	defer hangUpToo()
	h.wait(t, q, first, "first", 1, got)
	h.wait(t, q, middle, "middle", 2, got)
	h.wait(t, q, t.Context(), "last", 3, got)
	for _, leave := range []struct {
		hangUp context.CancelFunc
		owner  string
	}{{hangUpToo, "middle"}, {hangUp, "first"}} {
		leave.hangUp()
		a := receive(t, got)
		require.Equal(t, leave.owner, a.owner)
		require.ErrorIs(t, a.err, lock.ErrCallerGone)
	}
	require.Equal(t, 1, q.Waiting())
	h.release(t, holder)
	a := receive(t, got)
	require.NoError(t, a.err)
	require.Equal(t, "last", a.owner)
}

// interposed calls afterGrant between a grant and its answer.
type interposed struct {
	lock.Store
	afterGrant func(lock.Grant)
}

func (s *interposed) Acquire(ctx context.Context, r lock.Request) (lock.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	if err == nil {
		s.afterGrant(g)
	}
	return g, err
}

func grantOfDeadCaller(t *testing.T, h Harness) {
	for _, wait := range []time.Duration{0, patience} {
		ctx, hangUp := context.WithCancel(t.Context())
		q := queue(t, &interposed{h.Store, func(lock.Grant) { hangUp() }}, 64)
		var undone []lock.Freed
		q.Undone = func(_ context.Context, _ lock.Grant, f lock.Freed) { undone = append(undone, f) }
		_, err := q.Acquire(ctx, h.request("dead"), wait)
		require.ErrorIs(t, err, lock.ErrCallerGone)
		require.Len(t, undone, 1)
		require.Equal(t, "dead", undone[0].OwnerID)
		g := h.acquire(t, "next")
		require.Greater(t, g.Token, undone[0].Token)
		h.release(t, g)
	}
}

func deadCallerAskedAgain(t *testing.T, h Harness) {
	ctx, hangUp := context.WithCancel(t.Context())
	var first, second lock.Grant
	q := queue(t, &interposed{h.Store, func(g lock.Grant) {
		var err error
		second, err = h.Other.Acquire(context.Background(), h.request("a")) // on another server
		require.NoError(t, err)
		first = g
		hangUp()
	}}, 64)
	_, err := q.Acquire(ctx, h.request("a"), 0)
	require.ErrorIs(t, err, lock.ErrCallerGone)
	require.Equal(t, first.Token, second.Token)
	h.contended(t, "b", "a")
	_, err = h.Other.Renew(t.Context(), key, second.Token, h.TTL)
	require.NoError(t, err, "the second request was answered, so its grant must stay")
}

func deadCallerFoundAGrant(t *testing.T, h Harness) {
	ctx, hangUp := context.WithCancel(t.Context())
	told := h.acquire(t, "a") // an earlier request, or a later one on another server that was faster
	q := queue(t, &interposed{h.Store, func(lock.Grant) { hangUp() }}, 64)
	_, err := q.Acquire(ctx, h.request("a"), 0)
	require.ErrorIs(t, err, lock.ErrCallerGone)
	h.contended(t, "b", "a")
	_, err = h.Store.Renew(t.Context(), key, told.Token, h.TTL)
	require.NoError(t, err, "its owner was told of the grant, so it must stay")
}

func holderNeedNotWait(t *testing.T, h Harness) {
	q := queue(t, h.Store, 64)
	holder := h.acquire(t, "holder")
	got := make(chan answer, 1)
	h.wait(t, q, t.Context(), "w", 1, got)
	for _, wait := range []time.Duration{0, patience} {
		g, err := q.Acquire(bounded(t), h.request("holder"), wait)
		require.NoError(t, err)
		require.Equal(t, holder.Token, g.Token)
	}
	h.release(t, holder)
	require.NoError(t, receive(t, got).err)
}

func bothRequestsOfAnOwner(t *testing.T, h Harness) {
	q := queue(t, h.Store, 64)
	holder := h.acquire(t, "holder")
	got := make(chan answer, 3)
	for i, owner := range []string{"twice", "between", "twice"} {
		h.wait(t, q, t.Context(), owner, i+1, got)
	}
	h.release(t, holder)
	one, two := receive(t, got), receive(t, got)
	for _, a := range []answer{one, two} {
		require.NoError(t, a.err)
		require.Equal(t, "twice", a.owner)
	}
	require.Equal(t, one.grant.Token, two.grant.Token)
	h.release(t, one.grant)
	require.Equal(t, "between", receive(t, got).owner)
}

func waitersAreBounded(t *testing.T, h Harness) {
	q := queue(t, h.Store, 2)
	holder := h.acquire(t, "holder")
	got := make(chan answer, 4)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	h.wait(t, q, ctx, "w1", 1, got)
	h.wait(t, q, t.Context(), "w2", 2, got)
	_, err := q.Acquire(t.Context(), h.request("w3"), patience)
	require.ErrorIs(t, err, lock.ErrTooManyWaiters)
	_, err = q.Acquire(t.Context(), lock.Request{Key: "payout:other", OwnerID: "w3", TTL: h.TTL}, patience)
	require.NoError(t, err, "the bound is per key")
	_, err = q.Acquire(t.Context(), h.request("holder"), patience)
	require.NoError(t, err, "the holder does not wait, so the bound is not for it")

	hangUp()
	require.ErrorIs(t, receive(t, got).err, lock.ErrCallerGone)
	h.wait(t, q, t.Context(), "w4", 2, got)
	h.release(t, holder)
	second := receive(t, got)
	require.Equal(t, "w2", second.owner)
	h.release(t, second.grant)
	require.Equal(t, "w4", receive(t, got).owner)
}

func closingSendsAway(t *testing.T, h Harness) {
	q := queue(t, h.Store, 64)
	h.acquire(t, "holder")
	got := make(chan answer, 2)
	h.wait(t, q, t.Context(), "w1", 1, got)
	h.wait(t, q, t.Context(), "w2", 2, got)
	q.Close()
	for range 2 {
		require.ErrorIs(t, receive(t, got).err, lock.ErrUnavailable)
	}
}
