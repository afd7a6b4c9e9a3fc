package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"railguard/deploy/local"
	"railguard/deploy/local/child"
)

// The build that is measured, and the same with a CPU profiler that signals start and stop.
const (
	productPackage  = "railguard"
	profiledPackage = "railguard/harness/bench/profiled"
)

// product are the processes that are ours.
var product = []string{local.LockServer, local.PaymentResource, local.RailProxy, local.Worker, local.RailStub}

// system is everything that runs during a measurement.
type system struct {
	stack      *local.Stack
	bareWorker *child.Process
	temporal   client.Client
	buildDir   string
}

// startSystem builds the product and starts it as `railguard dev` does, with durable databases, and the bare worker next to it.
func startSystem(ctx context.Context, o options, progress io.Writer) (*system, error) {
	s := &system{}
	if err := s.start(ctx, o, progress); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *system) start(ctx context.Context, o options, progress io.Writer) error {
	binary, err := s.build(ctx, o.profileDir != "")
	if err != nil {
		return err
	}
	// The rail's own time is not what is measured.
	env := map[string][]string{local.RailStub: {"RAIL_STUB_LATENCY=0s"}}
	if o.profileDir != "" {
		dir, err := profileFolder(o.profileDir)
		if err != nil {
			return err
		}
		for _, name := range product {
			env[name] = append(env[name], profileVariable+"="+dir)
		}
	}
	s.stack, err = local.Start(ctx, local.Options{Binary: binary, Headless: true, Env: env, Out: progress})
	if err != nil {
		return err
	}
	if o.keep {
		s.stack.KeepData()
	}
	for _, name := range product {
		if s.stack.Process(name) == nil {
			return fmt.Errorf("the build has no %s", name)
		}
	}
	for _, url := range []string{s.stack.LockdbURL(), s.stack.PaydbURL()} {
		if err := requireDurable(ctx, url); err != nil {
			return err
		}
	}
	if s.temporal, err = dialTemporal(ctx, s.stack.TemporalAddress()); err != nil {
		return err
	}
	s.bareWorker, err = startBareWorker(s.stack)
	return err
}

func (s *system) build(ctx context.Context, profiled bool) (string, error) {
	dir, err := os.MkdirTemp("", "railguard-bench-")
	if err != nil {
		return "", err
	}
	s.buildDir = dir
	binary := filepath.Join(dir, "railguard")
	target := productPackage
	if profiled {
		target = profiledPackage
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, target)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // a static binary, as it is shipped
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", target, err, out)
	}
	return binary, nil
}

// requireDurable refuses databases that may lose a commit: figures taken with them would promise too much.
func requireDurable(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is pending on it
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
			return err
		}
		if value != "on" {
			return fmt.Errorf("the database on port %d runs with %s=%s: its figures would promise too much", conn.Config().Port, setting, value)
		}
	}
	return nil
}

// stop ends everything that start began, as far as it came.
func (s *system) stop() error {
	var all []error
	if s.bareWorker != nil {
		all = append(all, s.bareWorker.Stop(syscall.SIGTERM, 15*time.Second))
	}
	if s.temporal != nil {
		s.temporal.Close()
	}
	if s.stack != nil {
		all = append(all, s.stack.Stop())
	}
	if s.buildDir != "" {
		all = append(all, os.RemoveAll(s.buildDir))
	}
	return errors.Join(all...)
}

// watched are the processes whose cost is told. The databases are several processes each.
func (s *system) watched() []watched {
	var all []watched
	for _, name := range product {
		all = append(all, watched{name: name, pid: s.stack.Process(name).PID(), ours: true})
	}
	return append(all,
		watched{name: "lockdb", pid: s.stack.LockDB().PID(), tree: true},
		watched{name: "paydb", pid: s.stack.PayDB().PID(), tree: true},
		watched{name: local.Temporal, pid: s.stack.Process(local.Temporal).PID()},
		watched{name: bareWorkerCommand, pid: s.bareWorker.PID()},
		watched{name: "bench", pid: os.Getpid()},
	)
}
