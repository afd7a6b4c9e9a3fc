package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// profileVariable tells the profiled build where to write.
const profileVariable = "BENCH_PROFILE_DIR"

func profileFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// startProfiles starts a CPU profile in each of the product's processes when profiles are asked for and k is payouts. The
// function that it returns ends them.
func (m *measurement) startProfiles(k kind) (stop func() error, err error) {
	if m.options.profileDir == "" || k != payoutKind {
		return func() error { return nil }, nil
	}
	return func() error { return m.signalProduct(syscall.SIGUSR2) }, m.signalProduct(syscall.SIGUSR1)
}

func (m *measurement) signalProduct(sig syscall.Signal) error {
	var all []error
	for _, name := range product {
		all = append(all, m.system.stack.Process(name).Signal(sig))
	}
	return errors.Join(all...)
}
