// Package lockserver is the lock-server process: it mints fencing tokens and hands out leases. It knows nothing of payouts.
package lockserver

import (
	"fmt"
	"time"

	"railguard/services/settings"
)

// Config is the process's configuration, one field a variable.
type Config struct {
	Backend        string        `envconfig:"LOCK_BACKEND" default:"pg"`
	LockDBURL      string        `envconfig:"LOCKDB_URL" need:"true" secret:"true"`
	ListenAddr     string        `envconfig:"LISTEN_ADDR" default:"127.0.0.1:8081"`
	DefaultTTL     time.Duration `envconfig:"LOCK_DEFAULT_TTL" default:"30s"`
	MaxWaiters     int           `envconfig:"LOCK_MAX_WAITERS" default:"64"` // per key
	DBPool         int32         `envconfig:"LOCK_DB_POOL" default:"16"`
	AuthTokensFile string        `envconfig:"AUTH_TOKENS_FILE"`
	TLSCertFile    string        `envconfig:"TLS_CERT_FILE"`
	TLSKeyFile     string        `envconfig:"TLS_KEY_FILE"`
	TLSCAFile      string        `envconfig:"TLS_CA_FILE"`
}

// backendPG is the one value of LOCK_BACKEND that is built so far.
const backendPG = "pg"

// LoadConfig reads the environment. Every error names the variable.
func LoadConfig() (Config, error) {
	var cfg Config
	if err := settings.Load(&cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.check()
}

func (c Config) check() error {
	switch {
	case c.Backend != backendPG:
		return fmt.Errorf("LOCK_BACKEND: %q is not a backend; want %q", c.Backend, backendPG)
	case c.DefaultTTL < time.Second || c.DefaultTTL > 10*time.Minute:
		return fmt.Errorf("LOCK_DEFAULT_TTL: %s is not from 1s to 10m", c.DefaultTTL)
	case c.MaxWaiters < 1 || c.MaxWaiters > 10_000:
		return fmt.Errorf("LOCK_MAX_WAITERS: %d is not from 1 to 10000", c.MaxWaiters)
	case c.DBPool < 1 || c.DBPool > 1000:
		return fmt.Errorf("LOCK_DB_POOL: %d is not from 1 to 1000", c.DBPool)
	}
	return nil
}
