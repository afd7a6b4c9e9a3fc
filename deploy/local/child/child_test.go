package child_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local/child"
)

// Between the moment at which a child is waited for and the one at which Done is closed the system knows no such process
// any more. Signals are sent all the while, so that some of them meet that moment.
func TestASignalToAChildThatIsEndingIsNoError(t *testing.T) {
	t.Parallel()
	for range 100 {
		p, err := child.Start(exec.Command("sleep", "60"), syscall.SIGKILL)
		require.NoError(t, err)
		require.NoError(t, p.Signal(syscall.SIGKILL))
		for ended := false; !ended; {
			select {
			case <-p.Done():
				ended = true
			default:
				require.NoError(t, p.Signal(syscall.SIGCONT))
			}
		}
	}
}
