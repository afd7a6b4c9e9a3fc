package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"railguard/services/httpserver"
)

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(secretsDir(dir), func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		if entry.IsDir() {
			assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), path)
			return nil
		}
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
		data, err := os.ReadFile(path)
		files[entry.Name()] = string(data)
		return err
	}))
	return files
}

func TestSecretsAreMadeOnceAndForTheirOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, makeSecrets(dir))
	made := read(t, dir)
	require.NoError(t, makeSecrets(dir))
	assert.Equal(t, made, read(t, dir), "a second run changes what is in place")

	values := map[string]string{}
	for name, value := range made {
		if strings.HasSuffix(name, ".token") || strings.HasSuffix(name, ".password") {
			assert.Len(t, value, 26, name)
			assert.Empty(t, values[value], "%s and %s are the same secret", name, values[value])
			values[value] = name
		}
	}
	assert.Equal(t, "postgres://payapp:"+made["payapp.password"]+"@paydb:5432/paydb?sslmode=disable", made["payapp.url"])
	assert.Equal(t, "postgres://postgres:"+made["lockdb.password"]+"@lockdb:5432/lockdb?sslmode=disable", made["lockdb-owner.url"])

	require.NoError(t, os.Remove(filepath.Join(secretsDir(dir), "intake.token")))
	require.NoError(t, makeSecrets(dir))
	var entries []httpserver.TokenEntry
	again := read(t, dir)
	require.NoError(t, json.Unmarshal([]byte(again["tokens.json"]), &entries))
	for _, entry := range entries {
		assert.Equal(t, httpserver.HashBearer(again[entry.Name+".token"]), entry.SHA256, entry.Name)
	}
	assert.NotEqual(t, made["intake.token"], again["intake.token"])
	assert.Equal(t, made["executor.token"], again["executor.token"])
}

// TestComposeMountsWhatIsMade compares the files that compose.yaml names with those that are made: one that is missing stops compose.
func TestComposeMountsWhatIsMade(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, makeSecrets(dir))
	made := read(t, dir)
	file, err := os.ReadFile("../compose.yaml")
	require.NoError(t, err)
	named := regexp.MustCompile(`file: \./secrets/([^}]+)}`).FindAllStringSubmatch(string(file), -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		assert.Contains(t, made, name[1])
	}
}

// names collects what the form's first group matches.
func names(text, form string) map[string]bool {
	all := map[string]bool{}
	for _, match := range regexp.MustCompile(form).FindAllStringSubmatch(text, -1) {
		all[match[1]] = true
	}
	return all
}

// TestTheExampleHasEveryVariable compares it with what compose.yaml reads: with a default, or passed on without a value.
func TestTheExampleHasEveryVariable(t *testing.T) {
	compose, err := os.ReadFile("../compose.yaml")
	require.NoError(t, err)
	example, err := os.ReadFile("../.env.example")
	require.NoError(t, err)
	want := names(string(compose), `\$\{([A-Z_]+)`)
	maps.Copy(want, names(string(compose), `(?m)^      ([A-Z_]+):(?: #.*)?$`))
	assert.Equal(t, want, names(string(example), `(?m)^#([A-Z_]+)=`))
}
