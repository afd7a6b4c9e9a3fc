// Package profile is the small file by which a command in one shell finds the local stack that runs in another.
package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Variable names the environment variable that holds the path of a profile; it outranks the default path.
const Variable = "RAILGUARD_PROFILE"

// Profile says where a running stack is. It holds no bearer token, only where each lies; PaydbURL carries the
// password of a role that may only read, so the file is readable by its owner alone.
type Profile struct {
	LockServer        string            `json:"lockServer"`        // base URL, no trailing slash
	PaymentResource   string            `json:"paymentResource"`   // base URL
	RailProxy         string            `json:"railProxy"`         // base URL
	RailStub          string            `json:"railStub"`          // base URL
	Worker            string            `json:"worker"`            // base URL: metrics and health
	TemporalAddress   string            `json:"temporalAddress"`   // host:port
	TemporalNamespace string            `json:"temporalNamespace"` // "default"
	TaskQueue         string            `json:"taskQueue"`         // the worker's
	UI                string            `json:"ui,omitempty"`      // Temporal's web UI; "" when there is none
	PaydbURL          string            `json:"paydbUrl"`          // the SELECT-only role
	Logs              string            `json:"logs"`              // folder of the processes' logs, <process>.log each
	Tokens            map[string]string `json:"tokens"`            // role → path of the file that holds its bearer token
}

// ErrNone says that no profile was found: no local stack runs, or it runs under another account.
var ErrNone = errors.New("no running stack was found: start one with `railguard dev`, or set " + Variable)

// DefaultPath is where `railguard dev` leaves its profile for other shells of the same account.
func DefaultPath() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "railguard", "dev-profile.json"), nil
}

// Path is the profile in force: the variable's, else the default.
func Path() (string, error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	return DefaultPath()
}

// Load reads the profile in force; ErrNone when there is none.
func Load() (*Profile, error) {
	path, err := Path()
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	return LoadFile(path)
}

// LoadFile reads one profile; ErrNone when the file does not exist.
func LoadFile(path string) (*Profile, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (%s does not exist)", ErrNone, path)
	}
	if err != nil {
		return nil, err
	}
	var p Profile
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &p, nil
}

// Save writes the profile to path, readable by its owner alone, as a whole or not at all.
func (p *Profile) Save(path string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".profile-") // 0600
	if err != nil {
		return err
	}
	_, err = next.Write(append(data, '\n'))
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // the write's own error says more
	}
	return err
}

// RemoveIfSame removes the profile at path when it is still this one: a newer stack's profile stays.
func (p *Profile) RemoveIfSame(path string) error {
	current, err := LoadFile(path)
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	if current.PaydbURL != p.PaydbURL || current.TemporalAddress != p.TemporalAddress {
		return nil
	}
	return os.Remove(path)
}
