// Package paymentresource guards the accounts: accounts, payouts, their state machine and the ledger. It compares the
// fencing token in the statements that write and knows nothing of the service that issued it.
package paymentresource

import (
	"errors"

	"railguard/services/settings"
)

// Config is read from the environment by LoadConfig.
type Config struct {
	ListenAddr     string `envconfig:"LISTEN_ADDR" default:"127.0.0.1:8082"`
	DatabaseURL    string `envconfig:"PAYDB_URL" need:"true" secret:"true"` // as the role payapp
	DatabasePool   int32  `envconfig:"PAYMENT_DB_POOL" default:"16"`        // connections
	FencingEnabled bool   `envconfig:"PAYMENT_FENCING_ENABLED" default:"true"`
	AuthTokensFile string `envconfig:"AUTH_TOKENS_FILE"`
	TLSCertFile    string `envconfig:"TLS_CERT_FILE"`
	TLSKeyFile     string `envconfig:"TLS_KEY_FILE"`
	TLSCAFile      string `envconfig:"TLS_CA_FILE"`
}

// LoadConfig reads the configuration; an error names the variable.
func LoadConfig() (Config, error) {
	var c Config
	if err := settings.Load(&c); err != nil {
		return Config{}, err
	}
	if c.DatabasePool < 1 || c.DatabasePool > 1000 {
		return Config{}, errors.New("PAYMENT_DB_POOL: want 1 to 1000 connections")
	}
	return c, nil
}
