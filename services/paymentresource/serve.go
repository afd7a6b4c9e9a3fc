package paymentresource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/httpserver"
	"railguard/services/paymentresource/internal/api"
	"railguard/services/paymentresource/internal/store"
	"railguard/services/postgres"
	"railguard/services/settings"
)

// Name is the service's name in logs and traces.
const Name = "payment-resource"

// drain bounds how long a request in flight may take to end after a SIGTERM; it exceeds the server's statement timeout.
const drain = 15 * time.Second

// Migrate creates or upgrades the service's tables, triggers, roles and grants in paydb; ownerURL is the
// database owner's. Running it again changes nothing.
func Migrate(ctx context.Context, ownerURL string) error { return store.Migrate(ctx, ownerURL) }

// Run serves until ctx is done and then drains. A database that is down makes the process not ready; it
// neither ends it nor keeps it from starting.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	s, err := newServer(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	return s.http.Run(ctx, drain)
}

type server struct {
	http *httpserver.Server
	pool *pgxpool.Pool
}

// Addr is the address that the server listens on.
func (s *server) Addr() string { return s.http.Addr() }

func newServer(ctx context.Context, cfg Config, log *slog.Logger) (*server, error) {
	log.LogAttrs(ctx, slog.LevelInfo, "configured", settings.Attrs(cfg)...)
	if !cfg.FencingEnabled {
		log.WarnContext(ctx, "fencing_disabled", "guard", "account", "variable", "PAYMENT_FENCING_ENABLED")
	}
	pool, err := postgres.Open(ctx, cfg.DatabaseURL, cfg.DatabasePool)
	if err != nil {
		return nil, fmt.Errorf("PAYDB_URL: %w", err)
	}
	surface, err := httpserver.New(httpserver.Options{
		Service: Name, Addr: cfg.ListenAddr, AuthTokensFile: cfg.AuthTokensFile,
		TLSCertFile: cfg.TLSCertFile, TLSKeyFile: cfg.TLSKeyFile, TLSCAFile: cfg.TLSCAFile,
		Logger: log,
		Ready:  func(ctx context.Context) error { return ready(ctx, pool) },
		Info:   map[string]any{"fencingEnabled": cfg.FencingEnabled},
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	surface.Registry.MustRegister(postgres.NewPoolCollector(pool))
	api.Mount(surface, pool, cfg.FencingEnabled, log)
	return &server{http: surface, pool: pool}, nil
}

// ready reads the newest of the tables, so that a database which was not migrated is told apart from a working one.
func ready(ctx context.Context, pool *pgxpool.Pool) error {
	var migrated bool
	err := pool.QueryRow(ctx, `SELECT to_regclass('public.payout_resolution_proposal') IS NOT NULL`).Scan(&migrated)
	if err != nil {
		return fmt.Errorf("paydb: %w", err)
	}
	if !migrated {
		return errors.New("paydb: the tables are missing; run the migrations")
	}
	return nil
}
