package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
	"railguard/services/settings"
	"railguard/services/telemetry"
	"railguard/workflows"
)

// Run executes payouts until ctx is done, then lets the steps that are running end. While Temporal
// cannot be reached the process is up and not ready, says why, and keeps trying; what waiting does not cure ends it.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	log.LogAttrs(ctx, slog.LevelInfo, "configuration_loaded", settings.Attrs(cfg)...)
	if cfg.WorkDuration > 0 {
		log.WarnContext(ctx, "work_duration_set", "variable", "PAYOUT_WORK_DURATION", "workMillis", cfg.WorkDuration.Milliseconds())
	}
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return fmt.Errorf("TEMPORAL_*: %w", err)
	}
	if options.Interceptors, err = tracing(); err != nil {
		return fmt.Errorf("%s: %w", telemetry.EndpointVariable, err)
	}
	p, err := newProcess(cfg, options, log)
	if err != nil {
		return err
	}
	return p.run(ctx)
}

// process is one worker and its HTTP surface.
type process struct {
	cfg     Config
	log     *slog.Logger
	options client.Options
	steps   *activities.Activities
	rail    *railapi.Client
	metrics *metrics
	http    *httpserver.Server

	temporal atomic.Pointer[client.Client] // nil until the worker polls, and while it drains
	excuse   atomic.Pointer[string]        // why it does not poll
}

func newProcess(cfg Config, options client.Options, log *slog.Logger) (*process, error) {
	p := &process{cfg: cfg, log: log, options: options}
	p.excuse.Store(ptr("not connected to Temporal yet"))
	bearer, err := httpserver.ReadBearer(cfg.CallerTokenFile)
	if err != nil {
		return nil, err
	}
	tls, err := httpserver.ClientTLS(cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSCAFile)
	if err != nil {
		return nil, err
	}
	id := httpclient.Identity{Bearer: bearer, TLS: tls}
	lock, err := lockapi.NewClient(cfg.LockServerURL, id)
	if err != nil {
		return nil, fmt.Errorf("LOCK_SERVER_URL: %w", err)
	}
	payments, err := paymentapi.NewClient(cfg.PaymentResourceURL, id)
	if err != nil {
		return nil, fmt.Errorf("PAYMENT_RESOURCE_URL: %w", err)
	}
	if p.rail, err = railapi.NewClient(cfg.RailProxyURL, id, cfg.SubmitBudget); err != nil {
		return nil, fmt.Errorf("RAIL_PROXY_URL: %w", err)
	}
	p.http, err = httpserver.New(httpserver.Options{
		Service:        "worker",
		Addr:           cfg.ListenAddr,
		AuthTokensFile: cfg.AuthTokensFile,
		TLSCertFile:    cfg.TLSCertFile,
		TLSKeyFile:     cfg.TLSKeyFile,
		TLSCAFile:      cfg.TLSCAFile,
		Logger:         log,
		Ready:          p.ready,
		Info: map[string]any{
			"taskQueue":          cfg.TaskQueue,
			"submitBudgetMillis": cfg.SubmitBudget.Milliseconds(),
			"workMillis":         cfg.WorkDuration.Milliseconds(),
		},
	})
	if err != nil {
		return nil, err
	}
	p.metrics = newMetrics(p.http.Registry)
	p.options.MetricsHandler = p.metrics.handler()
	p.options.Logger = sdkLogger(log)
	p.steps = &activities.Activities{
		Lock: lock, Payments: payments, Rail: p.rail, Timing: cfg.timing(), Log: log, SessionLost: p.metrics.sessionLost,
	}
	return p, nil
}

func ptr[T any](v T) *T { return &v }

// run serves HTTP until the worker has drained: a scrape sees the last payouts, and a probe sees that
// the process is not ready any more.
func (p *process) run(ctx context.Context) error {
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() {
		served <- p.http.Run(serving, 5*time.Second)
		stopWorking()
	}()
	err := p.work(working)
	stopServing()
	return errors.Join(err, <-served)
}

// work polls until ctx is done. The client is closed only after the worker has stopped: the results of
// the last steps go through it.
func (p *process) work(ctx context.Context) error {
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if c == nil { // asked to end while Temporal was out of reach
		return nil
	}
	defer c.Close()
	fatal := make(chan error, 1)
	w := p.newWorker(c, fatal)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start polling %q: %w", p.cfg.TaskQueue, err)
	}
	p.temporal.Store(&c)
	p.log.InfoContext(ctx, "polling_started", "taskQueue", p.cfg.TaskQueue, "namespace", p.namespace())
	select {
	case <-ctx.Done():
	case err = <-fatal:
	}
	p.excuse.Store(ptr("draining"))
	p.temporal.Store(nil)
	p.log.InfoContext(ctx, "draining_started")
	w.Stop()
	p.log.InfoContext(ctx, "draining_ended")
	return err
}

// reconnectEvery is the pause between two tries to reach Temporal.
const reconnectEvery = time.Second

// connect tries until Temporal is there and knows the search attributes, or ctx is done, which gives nil.
func (p *process) connect(ctx context.Context) (client.Client, error) {
	for {
		c, err := p.dial(ctx)
		if err == nil || errors.Is(err, errRefused) {
			return c, err
		}
		if reason := "the Temporal server: " + err.Error(); reason != *p.excuse.Load() {
			p.excuse.Store(&reason)
			p.log.WarnContext(ctx, "temporal_unreachable", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(reconnectEvery):
		}
	}
}

func (p *process) dial(ctx context.Context) (client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, p.options)
	if err != nil {
		return nil, err
	}
	if err := registerSearchAttributes(ctx, c, p.namespace()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (p *process) namespace() string {
	if p.options.Namespace == "" {
		return client.DefaultNamespace
	}
	return p.options.Namespace
}

// pollers of each kind: with fewer, a burst of payouts waits for a poll and not for work.
const pollers = 16

func (p *process) newWorker(c client.Client, fatal chan<- error) worker.Worker {
	w := worker.New(c, p.cfg.TaskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize:     p.cfg.MaxPayouts,
		MaxConcurrentWorkflowTaskExecutionSize: max(p.cfg.MaxPayouts, 2), // the SDK's own minimum
		MaxConcurrentActivityTaskPollers:       pollers,
		MaxConcurrentWorkflowTaskPollers:       pollers,
		// A worker that dies is missed by its sticky runs for as long as this.
		StickyScheduleToStartTimeout: time.Second,
		// A submission that is under way must bring its answer home (a lost one reads as ambiguous).
		WorkerStopTimeout: workflows.LongestActivity(p.cfg.timing()) + time.Second,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default: // the first one counts
			}
		},
	})
	payouts := &workflows.Payouts{Timing: p.cfg.timing()}
	w.RegisterWorkflowWithOptions(payouts.ExecutePayout, workflow.RegisterOptions{Name: workflows.ExecutePayoutType})
	w.RegisterActivity(p.steps)
	return w
}

// ready says why no payout can be executed well.
func (p *process) ready(ctx context.Context) error {
	c := p.temporal.Load()
	if c == nil {
		return errors.New(*p.excuse.Load())
	}
	if _, err := (*c).CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("the Temporal server: %w", err)
	}
	info, err := p.rail.Info(ctx)
	if err != nil {
		return fmt.Errorf("rail-proxy: %w", err)
	}
	if p.cfg.SubmitBudget.Milliseconds() <= info.RailTimeoutMillis {
		return fmt.Errorf("SUBMIT_BUDGET: %v must exceed the rail-proxy's RAIL_TIMEOUT, %d ms", p.cfg.SubmitBudget, info.RailTimeoutMillis)
	}
	return nil
}
