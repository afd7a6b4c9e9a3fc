package lockapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"railguard/services/apierr"
	"railguard/services/fencing"
)

// ErrNotHeld is wrapped by every error that says a grant was lost: the server answered LOCK_LOST, or the
// deadline passed before a renewal succeeded.
var ErrNotHeld = errors.New("the lease is not known to be held")

// renewTries is one renewal and its one automatic repetition: a renewal changes nothing but an expiry.
const renewTries = 2

// AdoptBound is the longest that Adopt takes.
const AdoptBound = renewTries * renewWhole

// Lease is a grant that this process keeps alive and can vouch for. It is about liveness alone: it
// stops work that is bound to be refused. What protects the money is the token at the guards, because
// a process can be stopped between any check and the write that follows it.
type Lease struct {
	client  *Client
	token   fencing.Token
	key     string
	ownerID string
	margin  float64

	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	ttl      time.Duration
	deadline time.Time // carries Go's monotonic reading, which a stopped process cannot hold back
	lost     error     // the server's LOCK_LOST; final
}

// Adopt takes a grant over in this process, which need not be the one that acquired it: it renews once
// and from then on every third of the TTL until Close. margin is the fraction of the TTL, at least 0 and
// below 1, by which the lease is reckoned shorter than the server's. The error wraps ErrNotHeld when the
// grant is lost, and is the client's own when the server gave no usable answer.
func (c *Client) Adopt(ctx context.Context, token fencing.Token, key, ownerID string, margin float64) (*Lease, error) {
	l := &Lease{client: c, token: token, key: key, ownerID: ownerID, margin: margin, done: make(chan struct{})}
	if err := l.renew(ctx); err != nil {
		return nil, err
	}
	// The keeping alive ends with Close and with nothing else: a worker that shuts down still finishes
	// the submission that the lease covers.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.keepAlive(keeping)
	return l, nil
}

// CheckStillHeld returns nil while the lease is held by this process's own conservative reckoning, and
// an error that wraps ErrNotHeld once the deadline has passed or a renewal was answered LOCK_LOST.
func (l *Lease) CheckStillHeld() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, l.lost)
	}
	if late := time.Since(l.deadline); late >= 0 {
		return fmt.Errorf("%w: its deadline passed %v ago", ErrNotHeld, late.Round(time.Millisecond))
	}
	return nil
}

// Close ends the keeping alive. It does not release the lock, which belongs to the grant.
func (l *Lease) Close() {
	l.stop()
	<-l.done
}

func (l *Lease) keepAlive(ctx context.Context) {
	defer close(l.done)
	for {
		l.mu.Lock()
		interval := l.ttl / 3
		l.mu.Unlock()
		pause := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		// A renewal that hangs must not keep the next one from being sent. What it did not achieve the
		// deadline tells, so its error is not needed here.
		trying, cancel := context.WithTimeout(ctx, interval)
		err := l.renew(trying)
		cancel()
		if errors.Is(err, ErrNotHeld) {
			return
		}
	}
}

// renew asks for a later expiry, reckoned from the time of sending: the server's own lease begins when
// the request arrives, which is later.
func (l *Lease) renew(ctx context.Context) error {
	var err error
	for range renewTries {
		var grant *Grant
		sent := time.Now()
		grant, err = l.client.Renew(ctx, l.token, l.key, l.ownerID, 0)
		if err == nil {
			return l.extend(sent, grant)
		}
		if apierr.CodeOf(err) == apierr.LockLost {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lost = err
			return fmt.Errorf("%w: %w", ErrNotHeld, err)
		}
		if ctx.Err() != nil || !repeatable(err) {
			break
		}
	}
	return err
}

func (l *Lease) extend(sent time.Time, grant *Grant) error {
	if grant.FencingToken != l.token || grant.TTLMillis <= 0 {
		return fmt.Errorf("renewal of token %d was answered with token %d and a TTL of %d ms", l.token, grant.FencingToken, grant.TTLMillis)
	}
	ttl := time.Duration(grant.TTLMillis) * time.Millisecond
	deadline := sent.Add(ttl - Margin(ttl, l.margin))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl = ttl
	if deadline.After(l.deadline) {
		l.deadline = deadline
	}
	return nil
}

// Margin is the part of a TTL that is not counted on: clocks that drift, and answers that are under way.
func Margin(ttl time.Duration, fraction float64) time.Duration {
	return time.Duration(float64(ttl) * fraction)
}
