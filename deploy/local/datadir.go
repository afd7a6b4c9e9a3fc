package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dataDir is the folder of one stack: lockdb/ and paydb/ belong to the databases' account, logs/ and secrets/ to
// whoever started the stack.
type dataDir struct {
	path      string
	temporary bool
	lock      *os.File
}

func openDataDir(path string) (*dataDir, error) {
	d := &dataDir{path: path}
	if path == "" {
		base, err := temporaryBase()
		if err != nil {
			return nil, err
		}
		if d.path, err = os.MkdirTemp(base, "railguard-"); err != nil {
			return nil, err
		}
		d.temporary = true
		if err := letPass(d.path); err != nil {
			return nil, errors.Join(err, d.close())
		}
	} else if err := d.openKept(); err != nil {
		return nil, err
	}
	if err := d.takeLock(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	for _, private := range []string{d.logs(), d.secretsDir()} {
		if err := os.MkdirAll(private, 0o700); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, nil
}

func (d *dataDir) openKept() error {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	d.path = path
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o711); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	return letPass(path)
}

// letPass lets the account that root runs the databases as through to their folders, whatever the umask is.
// Everything private lies in folders of its own.
func letPass(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chmod(path, 0o711)
}

// temporaryBase is a folder for temporary files that the databases' account can reach too: root's own TMPDIR may lie under /root.
func temporaryBase() (string, error) {
	if os.Geteuid() != 0 {
		return os.TempDir(), nil
	}
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if passable(dir) {
			return dir, nil
		}
	}
	return "", errors.New("no temporary folder can be reached by the account that PostgreSQL runs as: choose one with --data-dir")
}

func passable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// takeLock refuses a second stack on the same folder. The kernel gives the lock back when this process ends, however it ends.
func (d *dataDir) takeLock() error {
	file, err := os.OpenFile(filepath.Join(d.path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written to it
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("another stack is running on %s: stop it, or choose another --data-dir", d.path)
		}
		return err
	}
	d.lock = file
	return nil
}

func (d *dataDir) logs() string       { return filepath.Join(d.path, "logs") }
func (d *dataDir) secretsDir() string { return filepath.Join(d.path, "secrets") }

// close gives the folder back and removes a temporary one.
func (d *dataDir) close() error {
	var err error
	if d.temporary {
		err = os.RemoveAll(d.path)
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
		d.lock = nil
	}
	return err
}
