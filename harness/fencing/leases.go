package main

import (
	"context"
	"sync"
	"time"

	"railguard/harness/fencing/evidence"
	"railguard/services/lockapi"
)

// leaseWatch looks at a lock all the while and keeps what it saw of each grant. It decides nothing; the look-up is advisory.
type leaseWatch struct {
	mutex  sync.Mutex
	leases []evidence.Lease
	held   int64 // the token that holds the lock now; 0 when it is free
	cancel context.CancelFunc
	done   chan struct{}
}

// lookEvery is how often the lock is looked at; a grant that lives shorter may be missed.
const lookEvery = 40 * time.Millisecond

func watchLeases(ctx context.Context, locks *lockapi.Client, key string) *leaseWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &leaseWatch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			// A look that was not answered says nothing; the next one comes at once.
			if lock, err := locks.Get(ctx, key); err == nil {
				w.saw(lock, time.Now())
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return w
}

func (w *leaseWatch) saw(lock *lockapi.Lock, now time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	token := int64(lock.FencingToken)
	if !lock.Held || lock.AcquiredAt == nil || lock.ExpiresAt == nil {
		token = 0
	}
	if w.held != 0 && w.held != token {
		w.leases[len(w.leases)-1].EndedAt = now
	}
	if token != 0 && w.held != token {
		w.leases = append(w.leases, evidence.Lease{Token: token, AcquiredAt: *lock.AcquiredAt, ExpiresAt: *lock.ExpiresAt})
	}
	w.held = token
	if token == 0 {
		return
	}
	if last := &w.leases[len(w.leases)-1]; lock.ExpiresAt.After(last.ExpiresAt) {
		last.ExpiresAt = *lock.ExpiresAt
		last.Renewals++
	}
}

// seen reports whether the token was seen to hold the lock, and whether it was seen not to hold it any more.
func (w *leaseWatch) seen(token int64) (held, over bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, lease := range w.leases {
		if lease.Token == token {
			return true, !lease.EndedAt.IsZero()
		}
	}
	return false, false
}

// stop ends the watch and returns what was seen.
func (w *leaseWatch) stop() []evidence.Lease {
	w.cancel()
	<-w.done
	return w.leases
}
