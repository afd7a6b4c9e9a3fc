// Package pginstall sees to it that there is a PostgreSQL server to run.
package pginstall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"railguard/deploy/local/freeport"
	"railguard/deploy/local/pgserver"
)

// Ensure returns the folder of initdb and postgres. When none is found it installs Debian's package, when it may,
// and else fetches built binaries. out gets a line for each thing that is done to the machine.
func Ensure(ctx context.Context, out io.Writer) (string, error) {
	bin, err := pgserver.FindBin()
	if !errors.Is(err, pgserver.ErrNotFound) {
		return bin, err
	}
	tell := func(format string, args ...any) {
		if out != nil {
			_, _ = fmt.Fprintf(out, format+"\n", args...) // a lost line harms nobody
		}
	}
	if _, lookErr := exec.LookPath("apt-get"); os.Geteuid() == 0 && lookErr == nil {
		tell("PostgreSQL was not found: installing Debian's %s (no cluster of it is created or started)", debianPackage)
		aptErr := installDebian(ctx)
		if bin, err = pgserver.FindBin(); err == nil {
			return bin, nil
		}
		tell("that did not work: %v", aptErr)
	}
	tell("PostgreSQL was not found: fetching built binaries")
	if fetchErr := fetch(ctx); fetchErr != nil {
		return "", fmt.Errorf("%w (fetching it: %w)", pgserver.ErrNotFound, fetchErr)
	}
	return pgserver.FindBin()
}

const (
	debianPackage     = "postgresql-15"
	createClusterConf = "/etc/postgresql-common/createcluster.conf"
)

// installDebian installs the server package without the cluster that it would create and start: the package that decides this
// comes first, is told not to, and gets its own words back at the end.
func installDebian(ctx context.Context) error {
	if err := apt(ctx, "update"); err != nil {
		return err
	}
	if err := apt(ctx, "install", "--yes", "--no-install-recommends", "postgresql-common"); err != nil {
		return err
	}
	before, err := os.ReadFile(createClusterConf)
	if err != nil {
		return err
	}
	if err := os.WriteFile(createClusterConf, withoutCluster(before), 0o644); err != nil {
		return err
	}
	err = apt(ctx, "install", "--yes", "--no-install-recommends", debianPackage)
	return errors.Join(err, os.WriteFile(createClusterConf, before, 0o644))
}

var clusterLine = regexp.MustCompile(`(?m)^[# \t]*create_main_cluster[ \t]*=.*$`)

// withoutCluster is the file with create_main_cluster = false.
func withoutCluster(conf []byte) []byte {
	kept := bytes.TrimRight(clusterLine.ReplaceAll(conf, nil), "\n")
	return append(kept, "\ncreate_main_cluster = false\n"...)
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastBytes(out, 500))
	}
	return nil
}

func lastBytes(data []byte, n int) []byte { return bytes.TrimSpace(data[max(0, len(data)-n):]) }

// fetch puts built binaries into pgserver.FetchedDir. The library knows only how to run a server, not how to fetch one, so it
// runs one for a moment; as root that part fails after the files are in place, which is all that is wanted.
func fetch(ctx context.Context) error {
	dir, err := pgserver.FetchedDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(dir), "fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	port, err := freeport.Pick()
	if err != nil {
		return err
	}
	binaries := filepath.Join(scratch, "postgresql")
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().Version(embeddedpostgres.V17).Port(uint32(port)).
		CachePath(filepath.Join(scratch, "download")).BinariesPath(binaries).
		RuntimePath(filepath.Join(scratch, "run")).Logger(io.Discard))
	done := make(chan error, 1)
	go func() { done <- runOnce(server) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if _, statErr := os.Stat(filepath.Join(binaries, "bin", "initdb")); statErr != nil {
		return errors.Join(err, statErr)
	}
	if err := readableByAll(binaries); err != nil {
		return err
	}
	if err := os.Rename(binaries, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func runOnce(server *embeddedpostgres.EmbeddedPostgres) error {
	if err := server.Start(); err != nil {
		return err
	}
	return server.Stop()
}

// readableByAll lets the account that the servers run as read and run the files.
func readableByAll(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
