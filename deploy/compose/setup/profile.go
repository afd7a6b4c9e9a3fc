package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"railguard/deploy/local/credentials"
	"railguard/deploy/local/profile"
)

// container is what `docker compose ps --format json` tells of one.
type container struct {
	Service    string
	Publishers []struct {
		URL                       string
		TargetPort, PublishedPort int
	}
}

// writeProfile asks the engine which ports are published, so that the profile is right for any settings, and writes it beside compose.yaml.
func writeProfile(ctx context.Context, dir string, out io.Writer) error {
	addresses, err := published(ctx, dir)
	if err != nil {
		return err
	}
	if len(addresses) == 0 {
		return errors.New("no container of the stack runs")
	}
	secrets, err := credentials.Load(secretsDir(dir))
	if err != nil {
		return err
	}
	namespace, err := variable(ctx, dir, "worker", "TEMPORAL_NAMESPACE")
	if err != nil {
		return err
	}
	queue, err := variable(ctx, dir, "worker", "TASK_QUEUE")
	if err != nil {
		return err
	}
	if queue == "" {
		queue = "payouts"
	}
	web := func(service string, port int) string {
		if at := addresses[fmt.Sprint(service, ":", port)]; at != "" {
			return "http://" + at
		}
		return ""
	}
	p := &profile.Profile{
		LockServer: web("lock-server", 8081), PaymentResource: web("payment-resource", 8082), RailProxy: web("rail-proxy", 8083),
		Worker: web("worker", 8084), RailStub: web("rail-stub", 8090),
		TemporalAddress: addresses["temporal:7233"], TemporalNamespace: namespace, TaskQueue: queue, UI: web("temporal-ui", 8080),
		Tokens: secrets.TokenFiles(),
	}
	if at := addresses["paydb:5432"]; at != "" {
		p.PaydbURL = databaseURL("reconciler", secrets.Password("reconciler"), at, "paydb")
	}
	path := filepath.Join(dir, "profile.json")
	if err := p.Save(path); err != nil {
		return err
	}
	return tell(out, p, web("prometheus", 9090), path, secretsDir(dir))
}

// published maps service:port to host:port. Of a service that runs more than once it is the first.
func published(ctx context.Context, dir string) (map[string]string, error) {
	answer, err := compose(ctx, dir, "ps", "--format", "json")
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for containers := json.NewDecoder(bytes.NewReader(answer)); ; {
		var c container
		if err := containers.Decode(&c); errors.Is(err, io.EOF) {
			return addresses, nil
		} else if err != nil {
			return nil, fmt.Errorf("docker compose ps: %w", err)
		}
		for _, p := range c.Publishers {
			at := fmt.Sprint(c.Service, ":", p.TargetPort)
			if p.PublishedPort != 0 && addresses[at] == "" {
				addresses[at] = fmt.Sprint(p.URL, ":", p.PublishedPort)
			}
		}
	}
}

// variable is what a service's container is given, "" for nothing.
func variable(ctx context.Context, dir, service, name string) (string, error) {
	answer, err := compose(ctx, dir, "config", "--format", "json", service)
	if err != nil {
		return "", err
	}
	var config struct {
		Services map[string]struct{ Environment map[string]*string }
	}
	if err := json.Unmarshal(answer, &config); err != nil {
		return "", fmt.Errorf("docker compose config: %w", err)
	}
	if value := config.Services[service].Environment[name]; value != nil {
		return *value, nil
	}
	return "", nil
}

func compose(ctx context.Context, dir string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "docker", append([]string{"compose", "-f", filepath.Join(dir, "compose.yaml")}, args...)...)
	command.Stderr = os.Stderr
	answer, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("docker compose %s: %w", args[0], err)
	}
	return answer, nil
}

// tell says where everything is. It names the files of secrets and shows none.
func tell(out io.Writer, p *profile.Profile, prometheus, path, secrets string) error {
	var b bytes.Buffer
	fmt.Fprint(&b, "\nThe stack is up.\n\n")
	for _, line := range [][2]string{
		{"lock-server", p.LockServer}, {"payment-resource", p.PaymentResource}, {"rail-proxy", p.RailProxy}, {"rail-stub", p.RailStub}, {"worker", p.Worker},
		{"temporal", p.TemporalAddress}, {"web UI", p.UI}, {"prometheus", prometheus}, {"secrets", shorten(secrets)}, {"profile", shorten(path)},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "  %-18s %s\n", line[0], line[1])
		}
	}
	fmt.Fprintf(&b, `
In this shell, for railguard and for temporal:

  export RAILGUARD_PROFILE=%s
  export TEMPORAL_ADDRESS=%s TEMPORAL_NAMESPACE=%s
  bin/railguard account create acme-eur --currency EUR --opening 1000.00

make logs follows the logs; make down ends everything and keeps the data.
`, path, p.TemporalAddress, p.TemporalNamespace)
	_, err := b.WriteTo(out)
	return err
}

// shorten is the path from the working folder, where it lies below.
func shorten(path string) string {
	if here, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(short) {
			return short
		}
	}
	return path
}
