// Package railstub is a payment rail that is hostile on purpose: it stands in for the real one in tests, demos
// and experiments, and its own log is the evidence of what the rail was asked for.
package railstub

import (
	"fmt"
	"time"

	"railguard/services/railstub/internal/faults"
	"railguard/services/settings"
	"railguard/services/strictjson"
	"railguard/services/stubapi"
)

// Config is the configuration of a rail-stub.
type Config struct {
	ListenAddr string `envconfig:"LISTEN_ADDR" default:"127.0.0.1:8090"`
	// Seed decides which submissions get a fault that is not for all of them.
	Seed uint64 `envconfig:"RAIL_STUB_SEED" default:"1"`
	// Latency is what every submission waits for its answer.
	Latency time.Duration `envconfig:"RAIL_STUB_LATENCY" default:"250ms"`
	// Faults are the behaviours in force from the start: the body of PUT /faults.
	Faults string `envconfig:"RAIL_STUB_FAULTS"`
	// LookupDelay is how late a transfer shows in the look-up.
	LookupDelay time.Duration `envconfig:"RAIL_STUB_LOOKUP_DELAY" default:"0"`
	TLSCertFile string        `envconfig:"TLS_CERT_FILE"`
	TLSKeyFile  string        `envconfig:"TLS_KEY_FILE"`
}

// LoadConfig reads the configuration from the environment. Every error names the variable.
func LoadConfig() (Config, error) {
	var c Config
	if err := settings.Load(&c); err != nil {
		return Config{}, err
	}
	_, err := c.behaviour()
	return c, err
}

// behaviour is how the rail behaves from the start.
func (c Config) behaviour() (*faults.Behaviour, error) {
	switch {
	case c.Latency < 0 || c.Latency > faults.MaxDelay:
		return nil, fmt.Errorf("RAIL_STUB_LATENCY: want 0 to %v", faults.MaxDelay)
	case c.LookupDelay < 0 || c.LookupDelay > faults.MaxDelay:
		return nil, fmt.Errorf("RAIL_STUB_LOOKUP_DELAY: want 0 to %v", faults.MaxDelay)
	}
	b := faults.New(c.Seed, c.Latency, c.LookupDelay)
	if c.Faults == "" {
		return b, nil
	}
	var f stubapi.Faults
	if err := strictjson.Decode([]byte(c.Faults), &f); err != nil {
		return nil, fmt.Errorf("RAIL_STUB_FAULTS: %w", err)
	}
	if wrong := faults.Check(f); len(wrong) > 0 {
		for field, what := range wrong {
			return nil, fmt.Errorf("RAIL_STUB_FAULTS: %s: %s", field, what)
		}
	}
	b.Replace(f)
	return b, nil
}
