//go:build fencing

package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"railguard/deploy/local"
	"railguard/harness/cluster"
	"railguard/harness/fencing/evidence"
)

func schedule(t *testing.T, temporal client.Client, id string, paused bool) client.ScheduleHandle {
	t.Helper()
	handle, err := temporal.ScheduleClient().Create(t.Context(), client.ScheduleOptions{
		ID: id, Paused: paused, Action: &client.ScheduleWorkflowAction{ID: id, Workflow: "ExecutePayout", TaskQueue: "nobody"}})
	require.NoError(t, err)
	return handle
}

func paused(ctx context.Context, handle client.ScheduleHandle) (bool, error) {
	d, err := handle.Describe(ctx)
	if err != nil {
		return false, err
	}
	return d.Schedule.State.Paused, nil
}

// On a system that was there before, with its own worker and its own schedules.
func TestOnARunningSystem(t *testing.T) {
	t.Parallel()
	binary, err := cluster.Binary()
	require.NoError(t, err)
	stack, err := local.Start(t.Context(), local.Options{Binary: binary, Headless: true, Volatile: true,
		Env: map[string][]string{local.RailProxy: {"RAIL_TIMEOUT=500ms"}, local.Worker: {"SUBMIT_BUDGET=1s"}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop()) })
	temporal, err := client.Dial(client.Options{HostPort: stack.TemporalAddress()})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	at := []string{"--stack", "running", "--profile", stack.ProfilePath()}

	// The list of schedules is eventually consistent: an experiment right after a schedule was made need not see it.
	active, idle := schedule(t, temporal, "active", false), schedule(t, temporal, "idle", true)
	require.NoError(t, await(t.Context(), func() (bool, error) {
		list, err := temporal.ScheduleClient().List(t.Context(), client.ScheduleListOptions{})
		n := 0
		for err == nil && list.HasNext() {
			if _, err = list.Next(); err == nil {
				n++
			}
		}
		return n == 2, err
	}, func() string { return "the schedules are not listed" }))

	var during []bool
	o := try(t, interference{beforeThaw: func(ctx context.Context, _ *attempt) error {
		for _, handle := range []client.ScheduleHandle{active, idle} {
			p, err := paused(ctx, handle)
			if err != nil {
				return err
			}
			during = append(during, p)
		}
		return nil
	}}, append(at, "--fencing", "on")...)
	require.Equal(t, exitShown, o.exit)
	require.Equal(t, []bool{true, true}, during[:2], "nobody else starts payouts meanwhile")
	p, err := paused(t.Context(), active)
	require.NoError(t, err)
	require.False(t, p, "it was put back")
	p, err = paused(t.Context(), idle)
	require.NoError(t, err)
	require.True(t, p, "it was paused before")
	require.Nil(t, o.run.Invariants, "the books of a system with a life of its own are not this run's")
	require.True(t, o.run.GuardsAfter.RailProxy.FencingEnabled)
	require.NotNil(t, stack.Process(local.Worker), "its own worker is left alone")
	require.NoError(t, stack.Process(local.Worker).Err())

	// Its switches cannot be turned from outside, so the other modes are refused before anything is tried.
	o = try(t, interference{}, append(at, "--fencing", "off")...)
	require.Equal(t, exitUsage, o.exit)
	require.Contains(t, o.progress, string(evidence.SwitchWrong))
	require.Contains(t, o.progress, "rail-proxy says fencingEnabled=true at /info; mode off needs it started with RAIL_PROXY_FENCING_ENABLED=false")

	o = try(t, interference{}, append(at, "--fencing", "on", "--submit-budget", "400ms")...)
	require.Equal(t, exitUsage, o.exit)
	require.Contains(t, o.progress, "rail-proxy waits 500ms for the rail, no less than the workers' --submit-budget of 400ms")
}
