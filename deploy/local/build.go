package local

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds the railguard binary from the module that the working folder lies in, and returns its path: for tests and
// benchmarks, which are programs of their own.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "railguard")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "railguard").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}
