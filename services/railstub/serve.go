package railstub

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/railstub/internal/faults"
	"railguard/services/settings"
	"railguard/services/stubapi"
)

const (
	drain     = 5 * time.Second
	maxFaults = 4 << 20 // bytes of a list of faults
)

// Run serves until ctx is done. Submissions whose answer is still to come are then dropped without one.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	s, err := newServer(ctx, cfg, log)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

type server struct {
	http      *httpserver.Server
	behaviour *faults.Behaviour
	book      *faults.Book
	stopping  <-chan struct{}
}

func newServer(ctx context.Context, cfg Config, log *slog.Logger) (*server, error) {
	log.LogAttrs(ctx, slog.LevelInfo, "configuration_loaded", settings.Attrs(cfg)...)
	behaviour, err := cfg.behaviour()
	if err != nil {
		return nil, err
	}
	surface, err := httpserver.New(httpserver.Options{
		Service:      "rail-stub",
		Addr:         cfg.ListenAddr,
		TLSCertFile:  cfg.TLSCertFile,
		TLSKeyFile:   cfg.TLSKeyFile,
		Logger:       log,
		Info:         map[string]any{"seed": cfg.Seed},
		WriteTimeout: faults.MaxDelay + time.Minute,
		OpenReads:    true,
	})
	if err != nil {
		return nil, err
	}
	s := &server{http: surface, behaviour: behaviour, book: faults.NewBook(), stopping: ctx.Done()}
	routes := surface.Engine()
	routes.POST("/submit", s.submit)
	routes.GET("/faults", surface.Handle(func(*gin.Context) (int, any, error) { return http.StatusOK, s.behaviour.InForce(), nil }))
	routes.PUT("/faults", surface.Handle(s.replaceFaults))
	routes.POST("/faults", surface.Handle(s.addFault))
	routes.GET("/requests", surface.Handle(s.requests))
	routes.GET("/transfers", surface.Handle(s.transfers))
	return s, nil
}

// Addr is the address that the server listens on.
func (s *server) Addr() string { return s.http.Addr() }

func (s *server) run(ctx context.Context) error { return s.http.Run(ctx, drain) }

func (s *server) replaceFaults(c *gin.Context) (int, any, error) {
	var f stubapi.Faults
	if err := httpserver.BodyLimit(c, &f, maxFaults); err != nil {
		return 0, nil, err
	}
	if wrong := faults.Check(f); len(wrong) > 0 {
		return 0, nil, apierr.Fields(wrong)
	}
	s.behaviour.Replace(f)
	return http.StatusNoContent, nil, nil
}

func (s *server) addFault(c *gin.Context) (int, any, error) {
	var f stubapi.Fault
	if err := httpserver.Body(c, &f); err != nil {
		return 0, nil, err
	}
	if wrong := faults.CheckOne(f); len(wrong) > 0 {
		return 0, nil, apierr.Fields(wrong)
	}
	if !s.behaviour.Add(f) {
		return 0, nil, apierr.Field("clientRef", "there are %d faults already", faults.MaxFaults)
	}
	return http.StatusNoContent, nil, nil
}

func (s *server) requests(c *gin.Context) (int, any, error) {
	clientRef, given := c.GetQuery("clientRef")
	return http.StatusOK, s.book.Requests(clientRef, !given), nil
}

func (s *server) transfers(c *gin.Context) (int, any, error) {
	clientRef, given := c.GetQuery("clientRef")
	return http.StatusOK, s.book.Transfers(clientRef, !given, s.behaviour.LookupDelay()), nil
}
