package local

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process may listen on more ports than its own; that one of them was taken is said in its log alone.
func TestAnotherOfItsPortsThatWasTakenMeansAnotherTry(t *testing.T) {
	t.Parallel()
	s := &Stack{data: &dataDir{path: t.TempDir()}, processes: map[string]*Process{}}
	require.NoError(t, os.Mkdir(s.data.logs(), 0o700))
	up := filepath.Join(t.TempDir(), "up")
	tries := 0
	plan := func(script string) service {
		tries = 0
		return service{name: "many-ports", grace: time.Second,
			command: func(int) ([]string, []string, error) {
				tries++
				return []string{"/bin/sh", "-c", script, "sh", up, strconv.Itoa(tries)}, nil, nil
			},
			ready: func(context.Context, int) error { _, err := os.Stat(up); return err }}
	}
	p, err := s.launch(t.Context(), plan(`[ $2 -lt 3 ] && { echo "listen: bind: `+syscall.EADDRINUSE.Error()+`"; exit 1; }; : > "$1"; exec /bin/sleep 600`))
	require.NoError(t, err)
	require.Equal(t, 3, tries)
	require.NoError(t, p.Stop())

	require.NoError(t, os.Remove(up))
	_, err = s.launch(t.Context(), plan(`echo no such table; exit 1`))
	require.ErrorContains(t, err, "no such table")
	require.Equal(t, 1, tries, "what is no matter of ports is not tried again")
}
