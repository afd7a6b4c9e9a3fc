// Package workers runs the worker: the process that executes payouts. It owns no database.
package workers

import (
	"errors"
	"fmt"
	"time"

	"railguard/activities"
	"railguard/services/settings"
)

// Config is the worker's environment. How it reaches Temporal is told by the variables of Temporal's own
// tools: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*, TEMPORAL_PROFILE.
type Config struct {
	ListenAddr         string        `envconfig:"LISTEN_ADDR" default:"127.0.0.1:8084"`
	TaskQueue          string        `envconfig:"TASK_QUEUE" default:"payouts" need:"true"`
	CallerTokenFile    string        `envconfig:"CALLER_TOKEN_FILE"`
	LockServerURL      string        `envconfig:"LOCK_SERVER_URL" need:"true"`
	PaymentResourceURL string        `envconfig:"PAYMENT_RESOURCE_URL" need:"true"`
	RailProxyURL       string        `envconfig:"RAIL_PROXY_URL" need:"true"`
	LockTTL            time.Duration `envconfig:"PAYOUT_LOCK_TTL" default:"30s"`
	LockWait           time.Duration `envconfig:"PAYOUT_LOCK_WAIT" default:"2s"`
	SafetyMargin       float64       `envconfig:"LOCK_SAFETY_MARGIN" default:"0.30"`
	SubmitBudget       time.Duration `envconfig:"SUBMIT_BUDGET" default:"10s"`
	WorkDuration       time.Duration `envconfig:"PAYOUT_WORK_DURATION" default:"0"`
	MaxPayouts         int           `envconfig:"WORKER_MAX_PAYOUTS" default:"200"`
	AuthTokensFile     string        `envconfig:"AUTH_TOKENS_FILE"`
	TLSCertFile        string        `envconfig:"TLS_CERT_FILE"`
	TLSKeyFile         string        `envconfig:"TLS_KEY_FILE"`
	TLSCAFile          string        `envconfig:"TLS_CA_FILE"`
}

// LoadConfig reads the environment. Every error names the variable.
func LoadConfig() (Config, error) {
	var c Config
	if err := settings.Load(&c); err != nil {
		return Config{}, err
	}
	return c, c.validate()
}

// maxMargin keeps a lease that is renewed every third of its TTL from running out between two renewals.
const maxMargin = 0.6

func (c Config) validate() error {
	reserve := c.timing().Reserve(c.LockTTL)
	switch {
	case c.LockTTL < time.Second || c.LockTTL > time.Minute:
		return fmt.Errorf("PAYOUT_LOCK_TTL: %v is not within 1s and 1m", c.LockTTL)
	case c.LockWait < 0 || c.LockWait > 30*time.Second:
		return fmt.Errorf("PAYOUT_LOCK_WAIT: %v is not within 0 and 30s", c.LockWait)
	case !(c.SafetyMargin > 0 && c.SafetyMargin <= maxMargin): // NaN is neither
		return fmt.Errorf("LOCK_SAFETY_MARGIN: %v is not above 0 and at most %v: the lease is renewed every third of its TTL", c.SafetyMargin, maxMargin)
	case c.SubmitBudget <= 0:
		return fmt.Errorf("SUBMIT_BUDGET: %v is not above 0", c.SubmitBudget)
	case c.LockTTL <= reserve:
		return fmt.Errorf("PAYOUT_LOCK_TTL: %v must exceed SUBMIT_BUDGET and the safety margin, %v together", c.LockTTL, reserve)
	case c.WorkDuration < 0:
		return fmt.Errorf("PAYOUT_WORK_DURATION: %v is below 0", c.WorkDuration)
	case c.MaxPayouts < 1:
		return errors.New("WORKER_MAX_PAYOUTS: must be at least 1")
	}
	return nil
}

func (c Config) timing() activities.Timing {
	return activities.Timing{
		LockTTL:      c.LockTTL,
		LockWait:     c.LockWait,
		SafetyMargin: c.SafetyMargin,
		SubmitBudget: c.SubmitBudget,
		WorkDuration: c.WorkDuration,
	}
}
