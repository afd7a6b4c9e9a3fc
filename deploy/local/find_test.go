package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
)

func TestFindTemporal(t *testing.T) {
	program := func(path string) string {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/true\n"), 0o755))
		return path
	}
	root := t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv("TEMPORAL_CLI", "")
	t.Setenv("PATH", filepath.Join(root, "path"))
	binary := filepath.Join(root, "clone", "bin", "railguard")
	_, err := local.FindTemporal(binary)
	require.ErrorIs(t, err, local.ErrNoTemporal)

	built := program(filepath.Join(root, "clone", ".tools", "bin", "temporal"))
	found, err := local.FindTemporal(binary)
	require.NoError(t, err)
	require.Equal(t, built, found)

	onPath := program(filepath.Join(root, "path", "temporal"))
	found, err = local.FindTemporal(binary)
	require.NoError(t, err)
	require.Equal(t, onPath, found)

	named := program(filepath.Join(root, "elsewhere"))
	t.Setenv("TEMPORAL_CLI", named)
	found, err = local.FindTemporal(binary)
	require.NoError(t, err)
	require.Equal(t, named, found)

	t.Setenv("TEMPORAL_CLI", filepath.Join(root, "nothing"))
	_, err = local.FindTemporal(binary)
	require.ErrorContains(t, err, "TEMPORAL_CLI", "a variable that names nothing is an error, not a reason to look elsewhere")
}
