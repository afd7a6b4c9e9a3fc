package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNotFound says that no PostgreSQL server is installed.
var ErrNotFound = errors.New("PostgreSQL 15 or newer was not found: set PG_BIN to the folder of initdb and postgres")

// newest and oldest are the major versions looked for in Debian's folders.
const (
	newest = 20
	oldest = 15
)

// FindBin finds the folder of initdb and postgres: PG_BIN, then PATH, then Debian's folders, newest first, then
// the one that was fetched (see FetchedDir).
func FindBin() (string, error) {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("PG_BIN: there is no initdb and postgres in %s", dir)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		// A link on PATH may stand alone; postgres lies where it leads.
		if path, err = filepath.EvalSymlinks(path); err == nil && complete(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	for version := newest; version >= oldest; version-- {
		if dir := fmt.Sprintf("/usr/lib/postgresql/%d/bin", version); complete(dir) {
			return dir, nil
		}
	}
	if dir, err := FetchedDir(); err == nil && complete(filepath.Join(dir, "bin")) {
		return filepath.Join(dir, "bin"), nil
	}
	return "", ErrNotFound
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// FetchedDir is the folder of a PostgreSQL that was fetched because none is installed. Root's lies outside root's home,
// where the account that the servers run as could not reach it.
func FetchedDir() (string, error) {
	base := "/var/cache"
	if os.Geteuid() != 0 {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(base, "railguard", "postgresql"), nil
}
