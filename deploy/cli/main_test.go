package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain takes away what the developer's own environment says, so that no test meets a running system.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		home, err := os.MkdirTemp("", "railguard-cli-")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(home) }()
		defer stopRunning()
		for _, pair := range os.Environ() {
			name, _, _ := strings.Cut(pair, "=")
			for _, ours := range []string{"RAILGUARD_", "LOCK", "PAY", "RAIL", "TEMPORAL_", "RECONCILER_", "TASK_QUEUE", "TLS_"} {
				if strings.HasPrefix(name, ours) && name != "TEMPORAL_CLI" {
					_ = os.Unsetenv(name) // fails for an empty name only
				}
			}
		}
		for _, name := range []string{"RAILGUARD_PROFILE", "TEMPORAL_CONFIG_FILE"} {
			_ = os.Setenv(name, filepath.Join(home, "none"))
		}
		return m.Run()
	}())
}
