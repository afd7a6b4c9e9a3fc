package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of the queue, besides those of the store.
var (
	// ErrTooManyWaiters says that as many callers wait for the key on this server as may.
	ErrTooManyWaiters = errors.New("too many callers wait for the key")
	// ErrCallerGone says that the caller went away; nothing that it got is kept.
	ErrCallerGone = errors.New("the caller went away")
)

// The first waiter of a key asks when it is told that the key is free, when the holder's lease should have lapsed, and at least
// every PollEvery, because what tells it may fail. It never asks more often than every askFloor without being told.
const (
	PollEvery = time.Second
	askFloor  = 10 * time.Millisecond
)

// Queue lets callers wait for keys, first come first served per key on this server. Only the first waiter of a key talks to the
// store, one call at a time, so that waiting costs the backend no connection.
type Queue struct {
	// Undone, when set, is told of every grant that was undone because its caller had gone.
	Undone func(ctx context.Context, g Grant, f Freed)

	store Store
	max   int

	mu      sync.Mutex
	lines   map[string]*line
	waiting int
	closed  chan struct{}
	closing sync.Once
}

// line is who waits for one key, in order of arrival; it exists while there is anybody.
type line struct {
	waiters []*waiter
	due     bool      // the key may be free: ask now
	next    time.Time // ask then in any case
	last    *ContendedError
}

type waiter struct {
	ownerID string
	wake    chan struct{} // capacity 1
	counted bool          // it has been told once that the key is held
	resume  bool          // another request of its owner was granted the key: no need to wait its turn
}

// NewQueue makes a queue over a store, with room for maxWaiters callers per key.
func NewQueue(store Store, maxWaiters int) *Queue {
	return &Queue{store: store, max: maxWaiters, lines: make(map[string]*line), closed: make(chan struct{})}
}

// Acquire grants the key, waiting for it for at most wait. Errors are those of Store.Acquire, ErrTooManyWaiters and ErrCallerGone. ctx
// is the caller's: when it ends, the caller loses its place, and a grant that this call made is undone unless the same owner
// asked again meanwhile. Whether it did is for the store to know: it may have asked another server.
func (q *Queue) Acquire(ctx context.Context, r Request, wait time.Duration) (Grant, error) {
	g, err := q.acquire(ctx, r, wait)
	if ctx.Err() == nil {
		return g, err
	}
	if err == nil && !g.Resumed { // one that lived before belongs to a request that may have been answered
		f, err := q.store.Undo(context.WithoutCancel(ctx), g)
		if err == nil && q.Undone != nil { // if undoing failed, the lease lapses
			q.Undone(ctx, g, f)
		}
	}
	return Grant{}, ErrCallerGone
}

func (q *Queue) acquire(ctx context.Context, r Request, wait time.Duration) (Grant, error) {
	if q.busy(r.Key) {
		state, err := q.store.Get(ctx, r.Key)
		if err != nil {
			return Grant{}, err
		}
		if state.Held && state.OwnerID == r.OwnerID { // it holds the key and is in nobody's way
			return q.ask(ctx, r)
		}
		if wait <= 0 {
			return Grant{}, &ContendedError{HolderOwnerID: state.OwnerID, ExpiresAt: state.ExpiresAt, Remaining: state.Remaining}
		}
	} else if wait <= 0 {
		return q.ask(ctx, r)
	}
	w, err := q.join(r)
	if err != nil {
		return Grant{}, err
	}
	defer q.leave(r.Key, w)
	patience, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		pause := q.turn(r.Key, w)
		if pause == 0 {
			g, err := q.ask(ctx, r)
			var contended *ContendedError
			if !errors.As(err, &contended) {
				return g, err
			}
			q.heard(r.Key, w, contended)
		} else {
			q.idle(patience, w, pause)
		}
		if err := q.giveUp(ctx, patience, r.Key); err != nil {
			return Grant{}, err
		}
	}
}

// ask calls the store; a grant wakes the other requests of the same owner, which would get the same token.
func (q *Queue) ask(ctx context.Context, r Request) (Grant, error) {
	g, err := q.store.Acquire(ctx, r)
	if err != nil {
		return g, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[r.Key]; l != nil {
		l.hold(&ContendedError{HolderOwnerID: g.OwnerID, ExpiresAt: g.ExpiresAt, Remaining: g.TTL})
		for _, w := range l.waiters {
			if w.ownerID == g.OwnerID {
				w.resume = true
				w.rouse()
			}
		}
	}
	return g, nil
}

// hold notes who holds the key, and when to ask at the latest.
func (l *line) hold(c *ContendedError) {
	l.last = c
	l.next = time.Now().Add(min(max(c.Remaining, askFloor), PollEvery))
}

func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) busy(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[key] != nil
}

// join takes the last place. Whoever finds nobody else is due at once: it stands in line before it first asks, so that no
// word of a free key is missed in between.
func (q *Queue) join(r Request) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[r.Key]
	if l == nil {
		l = &line{due: true}
		q.lines[r.Key] = l
	}
	if len(l.waiters) >= q.max {
		return nil, ErrTooManyWaiters
	}
	w := &waiter{ownerID: r.OwnerID, wake: make(chan struct{}, 1), counted: len(l.waiters) > 0}
	l.waiters = append(l.waiters, w)
	if w.counted {
		q.waiting++
	}
	return w, nil
}

func (q *Queue) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.counted {
		q.waiting--
	}
	l := q.lines[key]
	l.waiters = slices.DeleteFunc(l.waiters, func(other *waiter) bool { return other == w })
	if len(l.waiters) == 0 {
		delete(q.lines, key)
		return
	}
	l.waiters[0].rouse()
}

// turn says when w is to ask: 0 for now, else after how long to look again; whoever is not first looks when it is roused.
func (q *Queue) turn(key string, w *waiter) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[key]
	if w.resume {
		w.resume = false
		return 0
	}
	if l.waiters[0] != w {
		return PollEvery
	}
	pause := time.Until(l.next)
	if l.due || pause <= 0 {
		l.due = false
		return 0
	}
	return pause
}

func (q *Queue) heard(key string, w *waiter, c *ContendedError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines[key].hold(c)
	if !w.counted {
		w.counted = true
		q.waiting++
	}
}

func (q *Queue) idle(patience context.Context, w *waiter, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-patience.Done():
	case <-q.closed:
	case <-w.wake:
	case <-timer.C:
	}
}

// giveUp returns nil while the caller is there and its patience lasts.
func (q *Queue) giveUp(ctx, patience context.Context, key string) error {
	select {
	case <-q.closed:
		return ErrUnavailable
	default:
	}
	if ctx.Err() != nil {
		return ErrCallerGone
	}
	if patience.Err() == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := q.lines[key].last; last != nil {
		return last
	}
	return &ContendedError{}
}

// Freed tells the first waiter of the key, if there is one, that the key may be free.
func (q *Queue) Freed(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[key]; l != nil {
		l.due = true
		l.waiters[0].rouse()
	}
}

// Waiting is how many callers wait for keys that others hold.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Close sends every waiter away with ErrUnavailable: the server is ending, another one may serve them.
func (q *Queue) Close() { q.closing.Do(func() { close(q.closed) }) }
