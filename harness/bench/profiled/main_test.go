package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignalsStartAndEndProfiles(t *testing.T) {
	dir := t.TempDir()
	code, err := profile(dir, "worker", func() int {
		for _, file := range []string{"worker-1.cpu.pprof", "worker-2.cpu.pprof"} {
			path := filepath.Join(dir, file)
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
			require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, 10*time.Second, time.Millisecond)
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
			require.Eventually(t, func() bool { return size(path) > 0 }, 10*time.Second, time.Millisecond)
		}
		return 7
	})
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.Positive(t, size(filepath.Join(dir, "worker.allocs.pprof")))
}

func TestAProfileThatRunsAtTheEndIsWritten(t *testing.T) {
	dir := t.TempDir()
	_, err := profile(dir, "worker", func() int {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
		require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "worker-1.cpu.pprof")); return err == nil }, 10*time.Second, time.Millisecond)
		return 0
	})
	require.NoError(t, err)
	require.Positive(t, size(filepath.Join(dir, "worker-1.cpu.pprof")))
}

func TestWithoutAFolderTheCommandRunsAsItIs(t *testing.T) {
	code, err := profile("", "worker", func() int { return 3 })
	require.NoError(t, err)
	require.Equal(t, 3, code)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
