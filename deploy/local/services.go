package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"railguard/deploy/local/profile"
)

// services are the product's processes in the order in which they start. Each may rely on the ones before it.
func (s *Stack) services() []service {
	lockdb := s.lockdb.RoleURL(lockDatabase, "lockapp", s.secrets.Password("lockapp"))
	payapp := s.paydb.RoleURL(payDatabase, "payapp", s.secrets.Password("payapp"))
	railapp := s.paydb.RoleURL(payDatabase, "railapp", s.secrets.Password("railapp"))
	return []service{
		s.service(RailStub, 10*time.Second, nil),
		s.service(LockServer, 15*time.Second, func() []string { return []string{"LOCK_BACKEND=pg", "LOCKDB_URL=" + lockdb} }),
		s.service(PaymentResource, 15*time.Second, func() []string { return []string{"PAYDB_URL=" + payapp} }),
		// A forwarded submission is awaited to its end, so this one may take as long as the rail.
		s.service(RailProxy, 30*time.Second, func() []string {
			return []string{"PAYDB_URL=" + railapp, "RAIL_URL=" + s.URL(RailStub)}
		}),
		s.service(Worker, workerGrace, s.workerEnv),
	}
}

// workerGrace is longer than a worker takes to bring a submission that is under way to its end.
const workerGrace = 60 * time.Second

func (s *Stack) workerEnv() []string {
	return []string{
		"LOCK_SERVER_URL=" + s.URL(LockServer), "PAYMENT_RESOURCE_URL=" + s.URL(PaymentResource), "RAIL_PROXY_URL=" + s.URL(RailProxy),
		"CALLER_TOKEN_FILE=" + s.TokenFile("executor"),
		"TEMPORAL_ADDRESS=" + s.TemporalAddress(), "TEMPORAL_NAMESPACE=" + Namespace, "TASK_QUEUE=" + TaskQueue,
	}
}

// service is a subcommand of the binary with what every one of them gets and its own environment on top.
func (s *Stack) service(name string, grace time.Duration, own func() []string) service {
	return service{
		name: name, port: name, grace: grace, ready: httpReady,
		command: func(port int) ([]string, []string, error) {
			env := append(ChildEnvironment(), "LISTEN_ADDR="+address(port), "AUTH_TOKENS_FILE="+s.secrets.HashesFile())
			if own != nil {
				env = append(env, own()...)
			}
			return []string{s.binary, name}, append(env, s.options.Env[name]...), nil
		},
	}
}

// httpReady is one look at /readyz.
func httpReady(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(port)+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read from
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz says %s: %s", answer.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// StartWorker starts another worker, under a name of its own, on a free port; env outranks what the stack gives its worker,
// for instance TASK_QUEUE=… or PAYOUT_WORK_DURATION=….
func (s *Stack) StartWorker(ctx context.Context, name string, env ...string) (*Process, error) {
	if s.Process(name) != nil {
		return nil, fmt.Errorf("there is a process named %q already", name)
	}
	plan := s.service(Worker, workerGrace, s.workerEnv)
	plan.name, plan.port = name, ""
	command := plan.command
	plan.command = func(port int) ([]string, []string, error) {
		argv, base, err := command(port)
		return argv, append(base, env...), err
	}
	return s.launch(ctx, plan)
}

// URL is the base URL of a process, without a trailing slash.
func (s *Stack) URL(process string) string {
	p := s.Process(process)
	if p == nil {
		panic(fmt.Sprintf("programming error: the stack runs no process %q", process))
	}
	return "http://" + address(p.Port())
}

func (s *Stack) logPath(name string) string { return filepath.Join(s.data.logs(), name+".log") }

// LogDir is the folder of the processes' logs. The databases log into their own folders.
func (s *Stack) LogDir() string { return s.data.logs() }

// DataDir is the folder of everything that the stack keeps.
func (s *Stack) DataDir() string { return s.data.path }

// ProfilePath is the profile that Start has written.
func (s *Stack) ProfilePath() string { return filepath.Join(s.data.path, "profile.json") }

// Profile says where everything is, for commands in other shells.
func (s *Stack) Profile() *profile.Profile {
	p := &profile.Profile{
		TemporalAddress: s.TemporalAddress(), TemporalNamespace: Namespace, TaskQueue: TaskQueue, UI: s.UIURL(),
		PaydbURL: s.ReaderURL(), Logs: s.LogDir(), Tokens: s.secrets.TokenFiles(),
	}
	for name, field := range map[string]*string{
		LockServer: &p.LockServer, PaymentResource: &p.PaymentResource, RailProxy: &p.RailProxy, RailStub: &p.RailStub, Worker: &p.Worker,
	} {
		if s.Process(name) != nil {
			*field = s.URL(name)
		}
	}
	return p
}
