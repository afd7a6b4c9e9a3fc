package lockserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/httpserver"
	"railguard/services/lockserver/internal/api"
	"railguard/services/lockserver/internal/lock"
	"railguard/services/lockserver/internal/pglock"
	"railguard/services/postgres"
	"railguard/services/settings"
)

// Migrate creates or updates the tables of lockdb, and the role lockapp. ownerURL is the URL of a role that may do both.
func Migrate(ctx context.Context, ownerURL string) error { return pglock.Migrate(ctx, ownerURL) }

// Run serves until ctx ends, then drains. A database that is down makes the process not ready; it does
// not end it.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	s, err := newServer(ctx, cfg, log)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

const (
	// sweepEvery is how often lapsed leases are marked free. Nobody waits for it: an acquire takes a lapsed lease over.
	sweepEvery = time.Second
	// drain is how long requests in flight may take to end. Waiters are sent away at once.
	drain = 10 * time.Second
)

type server struct {
	http    *httpserver.Server
	pool    *pgxpool.Pool
	store   lock.Store
	queue   *lock.Queue
	signals *api.Signals
	log     *slog.Logger
}

func newServer(ctx context.Context, cfg Config, log *slog.Logger) (*server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	log.LogAttrs(ctx, slog.LevelInfo, "configuration_loaded", settings.Attrs(cfg)...)
	pool, err := postgres.Open(ctx, cfg.LockDBURL, cfg.DBPool)
	if err != nil {
		return nil, fmt.Errorf("LOCKDB_URL: %w", err)
	}
	s := &server{pool: pool, log: log}
	s.store = pglock.New(pool, log)
	s.queue = lock.NewQueue(s.store, cfg.MaxWaiters)
	s.http, err = httpserver.New(httpserver.Options{
		Service: "lock-server", Addr: cfg.ListenAddr, AuthTokensFile: cfg.AuthTokensFile,
		TLSCertFile: cfg.TLSCertFile, TLSKeyFile: cfg.TLSKeyFile, TLSCAFile: cfg.TLSCAFile,
		Logger: log, Ready: s.store.Ready, Info: map[string]any{"backend": cfg.Backend},
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.http.Registry.MustRegister(postgres.NewPoolCollector(pool))
	s.signals = api.NewSignals(s.http.Registry, log, cfg.Backend, s.queue.Waiting)
	s.queue.Undone = s.signals.Undone
	(&api.API{Store: s.store, Queue: s.queue, Signals: s.signals, DefaultTTL: cfg.DefaultTTL}).Routes(s.http)
	return s, nil
}

// Addr is the address that the server listens on.
func (s *server) Addr() string { return s.http.Addr() }

// run serves until ctx ends. The backend's news go on until the last request was answered.
func (s *server) run(ctx context.Context) error {
	defer s.pool.Close()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	working.Go(func() { s.store.Watch(background, s.queue.Freed) })
	working.Go(func() { s.sweep(background) })
	unhook := context.AfterFunc(ctx, s.queue.Close)
	err := s.http.Run(ctx, drain)
	unhook()
	s.queue.Close()
	stop()
	working.Wait()
	return err
}

// sweep reports what lapsed, and how much is held, until ctx ends.
func (s *server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := s.sweepAll(ctx)
		if err != nil && !failing { // once per outage; /readyz says the rest
			s.log.WarnContext(ctx, "sweep_failed", "error", err.Error())
		}
		failing = err != nil
	}
}

func (s *server) sweepAll(ctx context.Context) error {
	for {
		swept, err := s.store.Sweep(ctx)
		for _, f := range swept.Lapsed {
			s.signals.Expired(ctx, f)
		}
		if err != nil {
			return err
		}
		s.signals.Held(swept.Held)
		if !swept.More {
			return nil
		}
	}
}
