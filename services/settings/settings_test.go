package settings_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/settings"
)

type spec struct {
	URL  string        `envconfig:"LOCKDB_URL" need:"true" secret:"true"`
	Wait time.Duration `envconfig:"PAYOUT_LOCK_WAIT" default:"2s"`
}

func TestLoadNamesTheVariable(t *testing.T) {
	var s spec
	require.ErrorContains(t, settings.Load(&s), "LOCKDB_URL must be set")

	t.Setenv("LOCKDB_URL", "postgres://somewhere")
	require.NoError(t, settings.Load(&s))
	require.Equal(t, 2*time.Second, s.Wait)

	t.Setenv("PAYOUT_LOCK_WAIT", "soon")
	require.ErrorContains(t, settings.Load(&s), "PAYOUT_LOCK_WAIT")
	t.Setenv("PAYOUT_LOCK_WAIT", "3s")

	t.Setenv("PAYOUT_LOCK_WIAT", "3s")
	require.ErrorContains(t, settings.Load(&s), "PAYOUT_LOCK_WIAT")
}

func TestAVariableOfAnotherProcessIsNoTypingError(t *testing.T) {
	t.Setenv("LOCKDB_URL", "postgres://somewhere")
	t.Setenv("RAIL_TIMEOUT", "8s")
	t.Setenv("PAYDB_URL_FILE", "/nowhere")
	require.NoError(t, settings.Load(&spec{}))
}

func TestSecretsComeFromFilesAndAreMasked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(path, []byte("postgres://secret\n"), 0o600))
	t.Setenv("LOCKDB_URL_FILE", path)
	var s spec
	require.NoError(t, settings.Load(&s))
	require.Equal(t, "postgres://secret", s.URL)
	attrs := settings.Attrs(&s)
	require.Equal(t, "LOCKDB_URL=********", attrs[0].String())
	require.Equal(t, "PAYOUT_LOCK_WAIT=2s", attrs[1].String())

	t.Setenv("LOCKDB_URL", "postgres://other")
	require.ErrorContains(t, settings.Load(&spec{}), "LOCKDB_URL and LOCKDB_URL_FILE are both set")

	require.NoError(t, os.Unsetenv("LOCKDB_URL"))
	t.Setenv("LOCKDB_URL_FILE", filepath.Join(t.TempDir(), "missing"))
	require.ErrorContains(t, settings.Load(&spec{}), "LOCKDB_URL_FILE")
}
