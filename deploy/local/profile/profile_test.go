package profile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local/profile"
)

func TestTheVariableOutranksTheDefault(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv(profile.Variable, "")
	_, err := profile.Load()
	require.ErrorIs(t, err, profile.ErrNone)

	path, err := profile.DefaultPath()
	require.NoError(t, err)
	saved := &profile.Profile{LockServer: "http://127.0.0.1:8081", PaydbURL: "postgres://one", Tokens: map[string]string{"intake": "i"}}
	require.NoError(t, saved.Save(path))
	loaded, err := profile.Load()
	require.NoError(t, err)
	require.Equal(t, saved, loaded)

	other := filepath.Join(t.TempDir(), "p.json")
	require.NoError(t, (&profile.Profile{LockServer: "http://127.0.0.1:1"}).Save(other))
	t.Setenv(profile.Variable, other)
	loaded, err = profile.Load()
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:1", loaded.LockServer)
}

func TestSaveIsReadableByItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "p.json")
	require.NoError(t, (&profile.Profile{}).Save(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestRemoveIfSameLeavesANewerProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	old, newer := &profile.Profile{PaydbURL: "old"}, &profile.Profile{PaydbURL: "new"}
	require.NoError(t, newer.Save(path))
	require.NoError(t, old.RemoveIfSame(path))
	_, err := profile.LoadFile(path)
	require.NoError(t, err)
	require.NoError(t, newer.RemoveIfSame(path))
	_, err = profile.LoadFile(path)
	require.ErrorIs(t, err, profile.ErrNone)
	require.NoError(t, newer.RemoveIfSame(path))
}
