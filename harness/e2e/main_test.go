// Package e2e proves every branch of the executor on the real system: PostgreSQL, Temporal, the services
// and the workers are processes of their own, and what is asserted is what they recorded.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"railguard/deploy/local"
	"railguard/harness/cluster"
)

// The timings of the shared system: the rail has one second, so that the ambiguous branches are quick.
var (
	railEnv   = []string{"RAIL_TIMEOUT=1s"}
	stubEnv   = []string{"RAIL_STUB_LATENCY=20ms"}
	workerEnv = []string{"SUBMIT_BUDGET=2s", "PAYOUT_LOCK_WAIT=300ms"}
)

// shared is the system that every test uses which does not break its parts.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	defer cluster.RemoveBinary()
	shared, err = boot(context.Background())
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	code = m.Run()
	// Whatever the tests did to it, the system as a whole must have kept every invariant.
	return code, shared.CheckInvariants(context.Background())
}

func boot(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.Boot(ctx, local.Options{Env: map[string][]string{
		"rail-proxy": railEnv, "rail-stub": stubEnv, "worker": workerEnv,
	}})
}
