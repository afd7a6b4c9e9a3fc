// Package httpserver is the gin set-up that the services share: authentication, strict JSON, the error
// envelope, metrics, health and an orderly end.
package httpserver

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"railguard/services/apierr"
)

// MaxBody is the size above which a request's body is refused, in bytes.
const MaxBody = 64 << 10

// Options describe one process's HTTP surface. AuthTokensFile and the TLS files are the paths that the
// variables of the same name give.
type Options struct {
	Service        string
	Addr           string // host:port; port 0 picks a free one
	AuthTokensFile string
	TLSCertFile    string
	TLSKeyFile     string
	TLSCAFile      string // when set, callers must present a certificate signed by it
	Logger         *slog.Logger
	// Ready says why the process cannot do its job, nil when it can. It is called with a deadline of 2 s.
	Ready func(context.Context) error
	// Info is added to what /info says.
	Info map[string]any
	// WriteTimeout bounds one request from its first byte to its answer's last; 60 s when zero.
	WriteTimeout time.Duration
	// OpenReads leaves out authentication under /v1; for the rail stub alone, which is not part of the product.
	OpenReads bool
}

// Server is one HTTP surface. Routes are added to API before Run.
type Server struct {
	Registry *prometheus.Registry
	// API is the group /v1, behind authentication.
	API *gin.RouterGroup

	options  Options
	engine   *gin.Engine
	tokens   *Tokens
	listener net.Listener
}

// Version is the version of the build, from the module's build information.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// New listens on the address and prepares the engine; nothing is served before Run.
func New(o Options) (*Server, error) {
	if o.AuthTokensFile == "" && !o.OpenReads {
		if err := requireLoopback(o.Addr); err != nil {
			return nil, err
		}
	}
	tokens, err := LoadTokens(o.AuthTokensFile)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := serverTLS(o)
	if err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode)
	s := &Server{Registry: prometheus.NewRegistry(), options: o, engine: gin.New(), tokens: tokens}
	s.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.engine.HandleMethodNotAllowed = true
	s.engine.RedirectTrailingSlash = false
	s.engine.Use(s.trace, s.measure(), s.recover)
	s.engine.NoRoute(func(c *gin.Context) { Fail(c, apierr.New(apierr.NotFound, "no such path")) })
	s.engine.NoMethod(func(c *gin.Context) { Fail(c, apierr.New(apierr.NotFound, "no such method on this path")) })
	s.operational()
	s.API = s.engine.Group("/v1")
	if !o.OpenReads {
		s.API.Use(tokens.authenticate)
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	if tlsConfig != nil {
		listener = tls.NewListener(listener, tlsConfig)
	}
	s.listener = listener
	return s, nil
}

// Engine is the router itself, for routes outside /v1 and for tests that list the routes.
func (s *Server) Engine() *gin.Engine { return s.engine }

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx is cancelled, then lets the requests in flight end, for at most drain.
// SIGHUP reloads the tokens file.
func (s *Server) Run(ctx context.Context, drain time.Duration) error {
	writeTimeout := s.options.WriteTimeout
	if writeTimeout == 0 {
		writeTimeout = 60 * time.Second
	}
	server := &http.Server{
		Handler:           s.engine,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelWarn),
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	s.options.Logger.Info("service_started", "addr", s.Addr())
	for {
		select {
		case err := <-served:
			return err
		case <-hangup:
			if err := s.tokens.Reload(); err != nil {
				s.options.Logger.Error("tokens_reload_failed", "error", err.Error())
			} else {
				s.options.Logger.Info("tokens_reloaded")
			}
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
			defer cancel()
			err := server.Shutdown(ending)
			s.options.Logger.Info("service_stopped")
			return err
		}
	}
}

func serverTLS(o Options) (*tls.Config, error) {
	if o.TLSCertFile == "" && o.TLSKeyFile == "" {
		if o.TLSCAFile != "" {
			return nil, errors.New("TLS_CA_FILE is set without TLS_CERT_FILE and TLS_KEY_FILE")
		}
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(o.TLSCertFile, o.TLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("TLS_CERT_FILE, TLS_KEY_FILE: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if o.TLSCAFile != "" {
		pool, err := loadPool(o.TLSCAFile)
		if err != nil {
			return nil, err
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// ClientTLS is the configuration with which a process calls the other services: it trusts the CA file's
// certificates and presents its own, when the files are given; nil without any.
func ClientTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" && caFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if certFile != "" || keyFile != "" {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("TLS_CERT_FILE, TLS_KEY_FILE: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if caFile != "" {
		pool, err := loadPool(caFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	return config, nil
}

func loadPool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("TLS_CA_FILE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("TLS_CA_FILE: no certificate in it")
	}
	return pool, nil
}

// ReadBearer reads the caller's own bearer token from the file that CALLER_TOKEN_FILE names; "" for no file.
func ReadBearer(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("CALLER_TOKEN_FILE: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// operational adds health, metrics and information, which need no authentication, and their aliases
// under /actuator.
func (s *Server) operational() {
	alive := func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "UP"}) }
	ready := func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), 2*time.Second)
		defer cancel()
		if s.options.Ready != nil {
			if err := s.options.Ready(ctx); err != nil {
				c.JSON(http.StatusServiceUnavailable, gin.H{"status": "DOWN", "reason": err.Error()})
				return
			}
		}
		c.JSON(http.StatusOK, gin.H{"status": "UP"})
	}
	about := gin.H{"service": s.options.Service, "version": Version()}
	for key, value := range s.options.Info {
		about[key] = value
	}
	info := func(c *gin.Context) { c.JSON(http.StatusOK, about) }
	metrics := gin.WrapH(promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{}))
	for _, at := range []struct {
		path    string
		handler gin.HandlerFunc
	}{
		{"/livez", alive}, {"/actuator/health/liveness", alive},
		{"/readyz", ready}, {"/actuator/health/readiness", ready},
		{"/info", info}, {"/actuator/info", info},
		{"/metrics", metrics}, {"/actuator/prometheus", metrics},
	} {
		s.engine.GET(at.path, at.handler)
	}
}

const traceKey = "railguard.traceId"

// trace continues the caller's trace, or makes an id so that an answer can be found in the logs anyway.
func (s *Server) trace(c *gin.Context) {
	ctx := otel.GetTextMapPropagator().Extract(c.Request.Context(), propagation.HeaderCarrier(c.Request.Header))
	c.Request = c.Request.WithContext(ctx)
	id := ""
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		id = span.TraceID().String()
	} else {
		random := make([]byte, 16)
		_, _ = rand.Read(random) // never fails since Go 1.24
		id = hex.EncodeToString(random)
	}
	c.Set(traceKey, id)
}

func (s *Server) measure() gin.HandlerFunc {
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "http_request_duration_seconds",
		Help:    "Time to answer, by route pattern.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"method", "route", "status"})
	s.Registry.MustRegister(duration)
	return func(c *gin.Context) {
		began := time.Now()
		c.Next()
		route, method := c.FullPath(), c.Request.Method
		if route == "" {
			route, method = "none", "none" // both are the caller's own words where no route matched
		}
		duration.WithLabelValues(method, route, strconv.Itoa(c.Writer.Status())).Observe(time.Since(began).Seconds())
	}
}

func (s *Server) recover(c *gin.Context) {
	defer func() {
		if v := recover(); v != nil {
			s.options.Logger.ErrorContext(c.Request.Context(), "handler_panicked",
				"route", c.FullPath(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			Fail(c, apierr.New(apierr.Internal, "internal error"))
		}
	}()
	c.Next()
}

// Fail ends the request with the envelope of err. An error without a code is INTERNAL; its text goes to
// the log through gin's error list and never into the answer.
func Fail(c *gin.Context, err error) {
	var known *apierr.Error
	if !errors.As(err, &known) {
		known = apierr.New(apierr.Internal, "internal error")
	}
	row, _ := apierr.Lookup(known.Code)
	answer := *known
	answer.TraceID = c.GetString(traceKey)
	if answer.RetryAfterMillis > 0 {
		c.Header("Retry-After", strconv.FormatInt((answer.RetryAfterMillis+999)/1000, 10))
	}
	c.AbortWithStatusJSON(row.Status, &answer)
}
