// Package credentials makes the secrets of a stack that runs on one machine, and finds them again there.
package credentials

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

// callers are the bearer tokens: one for each role, by the role's name, and a second operator, because some decisions need two.
var callers = []struct {
	name string
	role httpserver.Role
}{
	{"executor", httpserver.Executor}, {"resolver", httpserver.Resolver}, {"operator", httpserver.Operator},
	{"operator2", httpserver.Operator}, {"intake", httpserver.Intake}, {"reconciler", httpserver.Reconciler},
	{"reader", httpserver.Reader},
}

// DatabaseRoles are the login roles of the services, each with a password.
var DatabaseRoles = []string{"lockapp", "payapp", "railapp", "reconciler"}

// Set is what was made once for a folder. Each secret lies in a file of its own that only its owner may read.
type Set struct {
	dir       string
	bearers   map[string]string // caller → token
	passwords map[string]string // database role → password
}

// Load reads the secrets in dir, which exists, and makes those that are missing. The file of the tokens' hashes is written anew.
func Load(dir string) (*Set, error) {
	s := &Set{dir: dir, bearers: map[string]string{}, passwords: map[string]string{}}
	var entries []httpserver.TokenEntry
	for _, c := range callers {
		token, err := Keep(s.TokenFile(c.name))
		if err != nil {
			return nil, err
		}
		s.bearers[c.name] = token
		entries = append(entries, httpserver.TokenEntry{Name: c.name, Role: c.role, SHA256: httpserver.HashBearer(token)})
	}
	for _, role := range DatabaseRoles {
		password, err := Keep(s.PasswordFile(role))
		if err != nil {
			return nil, err
		}
		s.passwords[role] = password
	}
	data, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.HashesFile(), append(data, '\n'), 0o600)
}

// Keep reads the secret in a file, or makes one when there is none yet: capital letters and digits, which need no quoting anywhere.
func Keep(path string) (string, error) {
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

// TokenFile is the path of the file that holds a caller's bearer token.
func (s *Set) TokenFile(caller string) string { return filepath.Join(s.dir, caller+".token") }

// TokenFiles are all of them, by the callers' names.
func (s *Set) TokenFiles() map[string]string {
	files := make(map[string]string, len(callers))
	for _, c := range callers {
		files[c.name] = s.TokenFile(c.name)
	}
	return files
}

// PasswordFile is the path of the file that holds the password of a database role.
func (s *Set) PasswordFile(role string) string { return filepath.Join(s.dir, role+".password") }

// HashesFile is what the services read: SHA-256 sums, no token.
func (s *Set) HashesFile() string { return filepath.Join(s.dir, "tokens.json") }

// Bearer is a caller's bearer token: executor, resolver, operator, operator2, intake, reconciler or reader.
func (s *Set) Bearer(caller string) string {
	token, ok := s.bearers[caller]
	if !ok {
		panic(fmt.Sprintf("programming error: there is no bearer token for %q", caller))
	}
	return token
}

// Password is the password of a database role.
func (s *Set) Password(role string) string {
	password, ok := s.passwords[role]
	if !ok {
		panic(fmt.Sprintf("programming error: there is no password for %q", role))
	}
	return password
}
