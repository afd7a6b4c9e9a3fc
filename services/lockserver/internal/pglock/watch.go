package pglock

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel carries the keys that other servers freed. A notification is a hint: whoever waits also polls.
const channel = "railguard_lock_freed"

// maxPending bounds the keys that wait to be told to the other servers; beyond it they find out by polling.
const maxPending = 4096

// news spreads the word that keys are free: to this server's own queue at once, and to the others behind the caller's
// back and in batches. NOTIFY is not part of the statement that frees, because PostgreSQL commits notifying
// transactions one after the other, each with its own flush to disk.
type news struct {
	sender string // so that a server does not hear itself
	due    chan struct{}

	mu      sync.Mutex
	watcher func(key string)
	pending map[string]struct{}
}

func newNews() *news {
	return &news{sender: rand.Text()[:8], due: make(chan struct{}, 1), pending: make(map[string]struct{})}
}

func (n *news) freed(key string) {
	n.mu.Lock()
	watcher := n.watcher
	if watcher != nil && len(n.pending) < maxPending {
		n.pending[key] = struct{}{}
	}
	n.mu.Unlock()
	if watcher == nil {
		return
	}
	watcher(key)
	select {
	case n.due <- struct{}{}:
	default:
	}
}

func (n *news) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	payloads := make([]string, 0, len(n.pending))
	for key := range n.pending {
		payloads = append(payloads, n.sender+" "+key)
	}
	clear(n.pending)
	return payloads
}

// Watch implements lock.Store. It keeps one connection of its own, besides the pool, for LISTEN.
func (s *Store) Watch(ctx context.Context, freed func(key string)) {
	s.news.mu.Lock()
	s.news.watcher = freed
	s.news.mu.Unlock()
	var telling sync.WaitGroup
	telling.Go(func() { s.tell(ctx) })
	for ctx.Err() == nil {
		if err := s.listen(ctx, freed); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "lock_notifications_interrupted", "error", err.Error())
		}
		pause(ctx, time.Second)
	}
	telling.Wait()
}

func (s *Store) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.news.due:
			ctx, cancel := own(ctx)
			_, _ = s.pool.Exec(ctx, sqlNotify, channel, s.news.take()) // a hint: the others poll as well
			cancel()
		}
	}
}

// listen hears the other servers until the connection breaks.
func (s *Store) listen(ctx context.Context, freed func(key string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if sender, key, ok := strings.Cut(n.Payload, " "); ok && sender != s.news.sender {
			freed(key)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
