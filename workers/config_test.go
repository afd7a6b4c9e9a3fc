package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func complete(t *testing.T) {
	t.Setenv("LOCK_SERVER_URL", "http://127.0.0.1:8081")
	t.Setenv("PAYMENT_RESOURCE_URL", "http://127.0.0.1:8082")
	t.Setenv("RAIL_PROXY_URL", "http://127.0.0.1:8083")
}

func TestTheDefaults(t *testing.T) {
	complete(t)
	c, err := LoadConfig()
	require.NoError(t, err)
	require.Equal(t, Config{
		ListenAddr: "127.0.0.1:8084", TaskQueue: "payouts",
		LockServerURL: "http://127.0.0.1:8081", PaymentResourceURL: "http://127.0.0.1:8082", RailProxyURL: "http://127.0.0.1:8083",
		LockTTL: 30 * time.Second, LockWait: 2 * time.Second, SafetyMargin: 0.3, SubmitBudget: 10 * time.Second, MaxPayouts: 200,
	}, c)
}

func TestEveryRefusalNamesItsVariable(t *testing.T) {
	for name, c := range map[string]struct{ variable, value, says string }{
		"no lock-server":             {"LOCK_SERVER_URL", "", "LOCK_SERVER_URL must be set"},
		"no payment-resource":        {"PAYMENT_RESOURCE_URL", "", "PAYMENT_RESOURCE_URL must be set"},
		"no rail-proxy":              {"RAIL_PROXY_URL", "", "RAIL_PROXY_URL must be set"},
		"no task queue":              {"TASK_QUEUE", "", "TASK_QUEUE must be set"},
		"a TTL that is too short":    {"PAYOUT_LOCK_TTL", "900ms", "PAYOUT_LOCK_TTL"},
		"a TTL that is too long":     {"PAYOUT_LOCK_TTL", "2m", "PAYOUT_LOCK_TTL"},
		"a TTL below budget, margin": {"PAYOUT_LOCK_TTL", "14s", "SUBMIT_BUDGET"},
		"a budget beyond the TTL":    {"SUBMIT_BUDGET", "21s", "PAYOUT_LOCK_TTL"},
		"no budget":                  {"SUBMIT_BUDGET", "0", "SUBMIT_BUDGET"},
		"no margin":                  {"LOCK_SAFETY_MARGIN", "0", "LOCK_SAFETY_MARGIN"},
		"a margin beyond a renewal":  {"LOCK_SAFETY_MARGIN", "0.7", "LOCK_SAFETY_MARGIN"},
		"a margin that is no number": {"LOCK_SAFETY_MARGIN", "NaN", "LOCK_SAFETY_MARGIN"},
		"a wait below zero":          {"PAYOUT_LOCK_WAIT", "-1s", "PAYOUT_LOCK_WAIT"},
		"a wait that is too long":    {"PAYOUT_LOCK_WAIT", "31s", "PAYOUT_LOCK_WAIT"},
		"work below zero":            {"PAYOUT_WORK_DURATION", "-1s", "PAYOUT_WORK_DURATION"},
		"no payouts":                 {"WORKER_MAX_PAYOUTS", "0", "WORKER_MAX_PAYOUTS"},
		"not a duration":             {"SUBMIT_BUDGET", "10", "SUBMIT_BUDGET"},
		"a typing error":             {"SUBMIT_BUGDET", "10s", "SUBMIT_BUGDET"},
	} {
		t.Run(name, func(t *testing.T) {
			complete(t)
			t.Setenv(c.variable, c.value)
			_, err := LoadConfig()
			require.ErrorContains(t, err, c.says)
		})
	}
}
