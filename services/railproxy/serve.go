package railproxy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"railguard/services/httpserver"
	"railguard/services/postgres"
	"railguard/services/railproxy/internal/admission"
	"railguard/services/railproxy/internal/api"
	"railguard/services/railproxy/internal/rail"
	"railguard/services/railproxy/internal/store"
	"railguard/services/settings"
)

// drain is how long the end of the process waits for submissions in flight. It is not a bound that is meant to be
// reached: an outcome is written however long the database is away, and only a supervisor may give up on it.
const drain = 24 * time.Hour

// Run serves until ctx is done, then until every submission in flight has its outcome recorded.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	s, err := newServer(ctx, cfg, log)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

type server struct {
	http *httpserver.Server
	pool *pgxpool.Pool
}

func newServer(ctx context.Context, cfg Config, log *slog.Logger) (*server, error) {
	log.LogAttrs(ctx, slog.LevelInfo, "configuration_loaded", settings.Attrs(cfg)...)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if !cfg.FencingEnabled {
		log.WarnContext(ctx, "fencing_disabled", "guard", "rail", "variable", "RAIL_PROXY_FENCING_ENABLED")
	}
	trust, err := httpserver.ClientTLS(cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSCAFile)
	if err != nil {
		return nil, err
	}
	theRail, err := rail.New(cfg.RailURL, cfg.RailTimeout, trust)
	if err != nil {
		return nil, fmt.Errorf("RAIL_URL: %w", err)
	}
	// The pool outlives ctx: outcomes are written while the process drains.
	pool, err := postgres.Open(context.WithoutCancel(ctx), cfg.DatabaseURL, cfg.DBPool)
	if err != nil {
		return nil, fmt.Errorf("PAYDB_URL: %w", err)
	}
	instance := rand.Text()
	log.InfoContext(ctx, "proxy_instance_named", "proxyInstance", instance)
	records := store.New(pool, instance, cfg.FencingEnabled)
	surface, err := httpserver.New(httpserver.Options{
		Service:        "rail-proxy",
		Addr:           cfg.ListenAddr,
		AuthTokensFile: cfg.AuthTokensFile,
		TLSCertFile:    cfg.TLSCertFile,
		TLSKeyFile:     cfg.TLSKeyFile,
		TLSCAFile:      cfg.TLSCAFile,
		Logger:         log,
		Ready: func(ctx context.Context) error {
			if err := records.Ping(ctx); err != nil {
				log.WarnContext(ctx, "readiness_failed", "error", err.Error())
				return errors.New("paydb does not answer")
			}
			return theRail.Reachable(ctx)
		},
		Info: map[string]any{
			"fencingEnabled":    cfg.FencingEnabled,
			"railTimeoutMillis": cfg.RailTimeout.Milliseconds(),
			"proxyInstance":     instance,
		},
		WriteTimeout: cfg.RailTimeout + time.Minute,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	surface.Registry.MustRegister(postgres.NewPoolCollector(pool))
	guard := admission.New(records, theRail, surface.Registry, log)
	(&api.API{Admission: guard, Store: records, Rail: theRail, Log: log}).Routes(surface)
	return &server{http: surface, pool: pool}, nil
}

// Addr is the address that the server listens on.
func (s *server) Addr() string { return s.http.Addr() }

func (s *server) run(ctx context.Context) error {
	defer s.pool.Close()
	return s.http.Run(ctx, drain)
}
