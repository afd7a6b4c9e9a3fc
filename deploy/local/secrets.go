package local

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"railguard/services/httpserver"
)

// callers are the bearer tokens that a stack makes: one for each role, by the role's name, and a second operator,
// because some decisions need two.
var callers = []struct {
	name string
	role httpserver.Role
}{
	{"executor", httpserver.Executor}, {"resolver", httpserver.Resolver}, {"operator", httpserver.Operator},
	{"operator2", httpserver.Operator}, {"intake", httpserver.Intake}, {"reconciler", httpserver.Reconciler},
	{"reader", httpserver.Reader},
}

// databaseRoles are the login roles whose passwords a stack makes.
var databaseRoles = []string{"lockapp", "payapp", "railapp", "reconciler"}

// secrets are what a stack generates once for a data folder and finds again there. Each lies in a file of its own that
// only its owner may read.
type secrets struct {
	dir       string
	bearers   map[string]string // caller → token
	passwords map[string]string // database role → password
}

func loadSecrets(d *dataDir) (*secrets, error) {
	s := &secrets{dir: d.secretsDir(), bearers: map[string]string{}, passwords: map[string]string{}}
	var entries []httpserver.TokenEntry
	for _, c := range callers {
		token, err := keep(s.tokenFile(c.name))
		if err != nil {
			return nil, err
		}
		s.bearers[c.name] = token
		entries = append(entries, httpserver.TokenEntry{Name: c.name, Role: c.role, SHA256: httpserver.HashBearer(token)})
	}
	for _, role := range databaseRoles {
		password, err := keep(s.passwordFile(role))
		if err != nil {
			return nil, err
		}
		s.passwords[role] = password
	}
	data, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.hashesFile(), append(data, '\n'), 0o600)
}

// keep reads a secret, or makes it when there is none yet.
func keep(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err == nil && len(data) > 0 {
		return string(data), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	secret := rand.Text()
	return secret, os.WriteFile(path, []byte(secret), 0o600)
}

func (s *secrets) tokenFile(caller string) string { return filepath.Join(s.dir, caller+".token") }

func (s *secrets) passwordFile(role string) string { return filepath.Join(s.dir, role+".password") }

// hashesFile is what the services read: SHA-256 sums, no token.
func (s *secrets) hashesFile() string { return filepath.Join(s.dir, "tokens.json") }

// Bearer is the bearer token of a caller: executor, resolver, operator, operator2, intake, reconciler or reader.
func (s *Stack) Bearer(name string) string {
	token, ok := s.secrets.bearers[name]
	if !ok {
		panic(fmt.Sprintf("programming error: the stack makes no bearer token for %q", name))
	}
	return token
}

// TokenFile is the path of the file that holds a caller's bearer token.
func (s *Stack) TokenFile(name string) string { return s.secrets.tokenFile(name) }
