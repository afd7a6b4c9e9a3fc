// Package railproxy is the process that guards the rail: the only one that may call it.
package railproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"railguard/services/railproxy/internal/rail"
	"railguard/services/railproxy/internal/store"
	"railguard/services/settings"
)

// Config is the configuration of a rail-proxy.
type Config struct {
	ListenAddr string `envconfig:"LISTEN_ADDR" default:"127.0.0.1:8083"`
	// DatabaseURL is paydb as the role railapp.
	DatabaseURL string `envconfig:"PAYDB_URL" need:"true" secret:"true"`
	DBPool      int32  `envconfig:"RAIL_DB_POOL" default:"16"`
	RailURL     string `envconfig:"RAIL_URL" need:"true"`
	// RailTimeout bounds one submission on the rail's hop, from connecting to the answer's end.
	RailTimeout time.Duration `envconfig:"RAIL_TIMEOUT" default:"8s"`
	// FencingEnabled is a kill switch that exists for experiments: while false, neither tokens nor uniqueness are judged.
	FencingEnabled bool   `envconfig:"RAIL_PROXY_FENCING_ENABLED" default:"true"`
	AuthTokensFile string `envconfig:"AUTH_TOKENS_FILE"`
	TLSCertFile    string `envconfig:"TLS_CERT_FILE"`
	TLSKeyFile     string `envconfig:"TLS_KEY_FILE"`
	TLSCAFile      string `envconfig:"TLS_CA_FILE"`
}

// maxRailTimeout keeps a submission within what a request may take on this surface.
const maxRailTimeout = 5 * time.Minute

// LoadConfig reads the configuration from the environment. Every error names the variable.
func LoadConfig() (Config, error) {
	var c Config
	if err := settings.Load(&c); err != nil {
		return Config{}, err
	}
	return c, c.check()
}

func (c Config) check() error {
	if c.DBPool < 1 || c.DBPool > 1000 {
		return errors.New("RAIL_DB_POOL: want 1 to 1000 connections")
	}
	if _, err := rail.ParseURL(c.RailURL); err != nil {
		return fmt.Errorf("RAIL_URL: %w", err)
	}
	if c.RailTimeout <= 0 || c.RailTimeout > maxRailTimeout {
		return fmt.Errorf("RAIL_TIMEOUT: want more than 0 and at most %v", maxRailTimeout)
	}
	return nil
}

// Migrate creates or updates the rail-proxy's tables in paydb, as the owner of its schema, with the roles they are granted to.
func Migrate(ctx context.Context, ownerURL string) error { return store.Migrate(ctx, ownerURL) }
