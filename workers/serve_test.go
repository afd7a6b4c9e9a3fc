package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"railguard/deploy/local"
	"railguard/deploy/local/child"
	"railguard/deploy/local/freeport"
	"railguard/services/railapi"
	"railguard/workflows"
)

// soon bounds what takes milliseconds on an idle machine.
const soon = 60 * time.Second

// temporalAddress is the package's one Temporal server; each test has a task queue or a namespace of its own.
var temporalAddress string

func TestMain(m *testing.M) {
	code, err := withTemporal(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withTemporal(run func() int) (int, error) {
	port, err := freeport.Pick()
	if err != nil {
		return 1, err
	}
	server, err := startTemporal(port)
	if err != nil {
		return 1, err
	}
	temporalAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	code := run()
	return code, server.Stop(syscall.SIGTERM, 20*time.Second)
}

func startTemporal(port int) (*child.Process, error) {
	path, err := local.FindTemporal(os.Args[0])
	if err != nil {
		return nil, err
	}
	argv := []string{"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--log-level", "error",
		"--disable-config-file", "--disable-config-env"}
	for _, flag := range []string{"--http-port", "--metrics-port"} {
		free, err := freeport.Pick()
		if err != nil {
			return nil, err
		}
		argv = append(argv, flag, strconv.Itoa(free))
	}
	return child.Start(exec.Command(path, argv...), syscall.SIGKILL)
}

// dial waits until the server and the namespace can be used.
func dial(t *testing.T, namespace string) client.Client {
	var c client.Client
	require.Eventually(t, func() bool {
		var err error
		c, err = client.DialContext(t.Context(), client.Options{HostPort: temporalAddress, Namespace: namespace, Logger: sdkLogger(slog.New(slog.DiscardHandler))})
		if err != nil {
			return false
		}
		_, err = c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		if err == nil {
			_, err = c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		}
		if err != nil {
			c.Close()
		}
		return err == nil
	}, soon, 100*time.Millisecond)
	t.Cleanup(c.Close)
	return c
}

// ownNamespace makes a namespace of the test's own.
func ownNamespace(t *testing.T) string {
	name := "test-" + uuid.NewString()
	_, err := dial(t, "default").WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	return name
}

// proxyInfo is a rail-proxy that tells its timeout and does nothing else.
func proxyInfo(t *testing.T, timeout time.Duration) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/info" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(railapi.Info{Service: "rail-proxy", RailTimeoutMillis: timeout.Milliseconds()})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func nobody(t *testing.T) string {
	port, err := freeport.Pick()
	require.NoError(t, err)
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

func config(t *testing.T) Config {
	return Config{
		ListenAddr: "127.0.0.1:0", TaskQueue: "test-" + uuid.NewString(),
		LockServerURL: nobody(t), PaymentResourceURL: nobody(t), RailProxyURL: proxyInfo(t, 8*time.Second),
		LockTTL: 30 * time.Second, LockWait: 10 * time.Millisecond, SafetyMargin: 0.3, SubmitBudget: 10 * time.Second, MaxPayouts: 10,
	}
}

// running is a worker that the test has started.
type running struct {
	url   string
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, cfg Config, options client.Options) *running {
	p, err := newProcess(cfg, options, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	w := &running{url: "http://" + p.http.Addr(), stop: stop, ended: make(chan error, 1)}
	go func() { w.ended <- p.run(ctx) }()
	t.Cleanup(func() {
		stop()
		_ = w.wait(t) // how it ended is asked by the tests that end it
	})
	return w
}

// wait waits for the end and keeps it for whoever waits next.
func (w *running) wait(t *testing.T) error {
	select {
	case err := <-w.ended:
		w.ended <- err
		return err
	case <-time.After(soon):
		require.Fail(t, "the worker did not end")
		return nil
	}
}

func (w *running) get(path string) (int, string) {
	answer, err := http.Get(w.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }() // it was only read from
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}

func (w *running) awaitReady(t *testing.T) {
	require.Eventually(t, func() bool {
		status, _ := w.get("/readyz")
		return status == http.StatusOK
	}, soon, 50*time.Millisecond)
}

func (w *running) awaitReason(t *testing.T, reason string) {
	require.Eventually(t, func() bool {
		status, body := w.get("/actuator/health/readiness")
		var said struct{ Reason string }
		return status == http.StatusServiceUnavailable && json.Unmarshal([]byte(body), &said) == nil && strings.Contains(said.Reason, reason)
	}, soon, 50*time.Millisecond)
}

func TestAWorkerRegistersWhatItNeedsAndSaysSo(t *testing.T) {
	t.Parallel()
	namespace := ownNamespace(t)
	c := dial(t, namespace)
	cfg := config(t)
	w := start(t, cfg, client.Options{HostPort: temporalAddress, Namespace: namespace})
	w.awaitReady(t)

	list, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	require.NoError(t, err)
	require.Subset(t, list.GetCustomAttributes(), workflows.SearchAttributes())

	for _, path := range []string{"/livez", "/actuator/health/liveness", "/readyz", "/actuator/health/readiness"} {
		status, _ := w.get(path)
		require.Equal(t, http.StatusOK, status, path)
	}
	for _, path := range []string{"/metrics", "/actuator/prometheus"} {
		status, body := w.get(path)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, `payout_execute_seconds_count{outcome="ambiguous"} 0`)
		require.Contains(t, body, "lock_session_lost_total 0")
		require.Contains(t, body, "temporal_request_total{")
		require.NotContains(t, body, cfg.TaskQueue)
	}
	status, body := w.get("/info")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"submitBudgetMillis":10000`)

	w.stop()
	require.NoError(t, w.wait(t))
}

func TestSeveralWorkersMayRegisterAtTheSameTime(t *testing.T) {
	t.Parallel()
	namespace := ownNamespace(t)
	dial(t, namespace)
	var workers []*running
	for range 3 {
		workers = append(workers, start(t, config(t), client.Options{HostPort: temporalAddress, Namespace: namespace}))
	}
	for _, w := range workers {
		w.awaitReady(t)
	}
}

func TestASearchAttributeOfAnotherTypeEndsTheWorker(t *testing.T) {
	t.Parallel()
	namespace := ownNamespace(t)
	c := dial(t, namespace)
	_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: map[string]enumspb.IndexedValueType{"PayoutState": enumspb.INDEXED_VALUE_TYPE_TEXT},
	})
	require.NoError(t, err)
	w := start(t, config(t), client.Options{HostPort: temporalAddress, Namespace: namespace})
	err = w.wait(t)
	require.ErrorIs(t, err, errRefused)
	require.ErrorContains(t, err, "PayoutState has type Text")
}

func TestTheSubmitBudgetMustExceedTheProxysTimeout(t *testing.T) {
	t.Parallel()
	dial(t, "default")
	cfg := config(t)
	cfg.RailProxyURL = proxyInfo(t, cfg.SubmitBudget)
	w := start(t, cfg, client.Options{HostPort: temporalAddress})
	w.awaitReason(t, "SUBMIT_BUDGET: 10s must exceed the rail-proxy's RAIL_TIMEOUT")

	cfg = config(t)
	cfg.RailProxyURL = nobody(t)
	w = start(t, cfg, client.Options{HostPort: temporalAddress})
	w.awaitReason(t, "rail-proxy: ")
}

func TestAWorkerWaitsForTemporal(t *testing.T) {
	t.Parallel()
	port, err := freeport.Pick()
	require.NoError(t, err)
	w := start(t, config(t), client.Options{HostPort: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
	w.awaitReason(t, "the Temporal server: ")
	status, _ := w.get("/livez")
	require.Equal(t, http.StatusOK, status, "it waits; killing it would help nobody")

	server, err := startTemporal(port)
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Stop(syscall.SIGTERM, 20*time.Second)) }()
	w.awaitReady(t)
}

func TestAWorkerThatWaitsEndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	w := start(t, config(t), client.Options{HostPort: strings.TrimPrefix(nobody(t), "http://")})
	w.awaitReason(t, "the Temporal server: ")
	w.stop()
	require.NoError(t, w.wait(t))
}

func TestBadInputEndsTheRunAndSaysWhy(t *testing.T) {
	t.Parallel()
	c := dial(t, "default")
	cfg := config(t)
	start(t, cfg, client.Options{HostPort: temporalAddress}).awaitReady(t)
	id := uuid.NewString()
	for name, input := range map[string]struct {
		args []any
		says string
	}{
		"missing":       {nil, "missing"},
		"null":          {[]any{json.RawMessage("null")}, "want a JSON object"},
		"nil":           {[]any{nil}, "binary/null"},
		"a string":      {[]any{id}, "want a JSON object"},
		"bytes":         {[]any{[]byte(`{"payoutId":"` + id + `"}`)}, "binary/plain"},
		"no payout":     {[]any{map[string]any{}}, "payoutId: missing"},
		"not a UUID":    {[]any{map[string]any{"payoutId": "p-1"}}, "not a UUID"},
		"unknown field": {[]any{map[string]any{"payoutId": id, "amount": 1}}, `"amount"`},
		"wrong type":    {[]any{map[string]any{"payoutId": 7}}, "payoutId"},
		"malformed": {[]any{converter.NewRawValue(&commonpb.Payload{
			Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"payoutId":`),
		})}, "truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: cfg.TaskQueue}, workflows.ExecutePayoutType, input.args...)
			require.NoError(t, err)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, run.Get(context.Background(), nil), &refused)
			require.Equal(t, workflows.ErrorBadInput, refused.Type())
			require.Contains(t, refused.Message(), input.says)
		})
	}
}

func TestWithoutALockNothingIsDone(t *testing.T) {
	t.Parallel()
	c := dial(t, "default")
	cfg := config(t)
	w := start(t, cfg, client.Options{HostPort: temporalAddress})
	w.awaitReady(t)
	in := workflows.PayoutInput{PayoutID: uuid.NewString(), AccountID: "acc-1"}
	run, err := c.ExecuteWorkflow(t.Context(), workflows.StartOptions(cfg.TaskQueue, in), workflows.ExecutePayoutType, in)
	require.NoError(t, err)
	var result workflows.PayoutResult
	require.NoError(t, run.Get(t.Context(), &result))
	require.Equal(t, workflows.OutcomeContended, result.Outcome, "an unavailable lock service is not a free lock")
	require.Zero(t, result.FencingToken)

	var status workflows.Status
	answer, err := c.QueryWorkflow(t.Context(), run.GetID(), run.GetRunID(), workflows.StatusQuery)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&status))
	require.Equal(t, workflows.Status{PayoutID: in.PayoutID, AccountID: "acc-1", Step: workflows.StepEnded}, status)

	_, body := w.get("/metrics")
	for _, outcome := range workflows.MetricOutcomes {
		require.Contains(t, body, fmt.Sprintf("payout_execute_seconds_count{outcome=%q} 0", outcome), "a contended run is not counted")
	}
}

func TestAWorkerThatCannotServeDoesNotStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }() // nothing was accepted on it
	cfg := config(t)
	cfg.ListenAddr = taken.Addr().String()
	_, err = newProcess(cfg, client.Options{HostPort: temporalAddress}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "LISTEN_ADDR")
	for variable, change := range map[string]func(*Config){
		"LOCK_SERVER_URL":      func(c *Config) { c.LockServerURL = "lock" },
		"PAYMENT_RESOURCE_URL": func(c *Config) { c.PaymentResourceURL = "pay" },
		"RAIL_PROXY_URL":       func(c *Config) { c.RailProxyURL = "rail" },
		"CALLER_TOKEN_FILE":    func(c *Config) { c.CallerTokenFile = "no-such-file" },
		"AUTH_TOKENS_FILE":     func(c *Config) { c.ListenAddr = "0.0.0.0:0" },
	} {
		cfg := config(t)
		change(&cfg)
		_, err := newProcess(cfg, client.Options{HostPort: temporalAddress}, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, variable)
	}
}
