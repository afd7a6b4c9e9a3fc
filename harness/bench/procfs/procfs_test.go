package procfs

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatOfANameWithParenthesesAndSpaces(t *testing.T) {
	t.Parallel()
	p, err := parseStat([]byte("4242 (a (b) c) S 17 1 1 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 1 0 99 1 2\n"))
	require.NoError(t, err)
	require.Equal(t, Process{PID: 4242, Parent: 17, CPU: 2100 * time.Millisecond}, p)
}

func TestWhatIsNoStatLineIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "7", "7 (x) S 1 2 3", "x (x) S 17 1 1 0 -1 4194560 1 2 3 4 150 50 7 3", "7 (x) S 17 1 1 0 -1 4194560 1 2 3 4 150 50 x 3"} {
		_, err := parseStat([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestTreeHasGrandchildrenAndNoStrangers(t *testing.T) {
	t.Parallel()
	all := map[int]Process{1: {PID: 1}, 5: {PID: 5, Parent: 1}, 6: {PID: 6, Parent: 5}, 7: {PID: 7, Parent: 6}, 8: {PID: 8, Parent: 1}}
	var pids []int
	for _, p := range Tree(all, 5) {
		pids = append(pids, p.PID)
	}
	require.ElementsMatch(t, []int{5, 6, 7}, pids)
	require.Empty(t, Tree(all, 99))
}

func TestStatus(t *testing.T) {
	t.Parallel()
	m, err := parseStatus("Name:\tx\nVmHWM:\t    1692 kB\nRssAnon:\t 116 kB\nRssFile:\t 1576 kB\nRssShmem:\t 4 kB\n")
	require.NoError(t, err)
	require.Equal(t, Memory{Peak: 1692 << 10, Anon: 116 << 10, File: 1576 << 10, Shared: 4 << 10}, m)
	_, err = parseStatus("VmHWM:\tmuch\n")
	require.ErrorContains(t, err, "VmHWM")
}

func TestMachine(t *testing.T) {
	t.Parallel()
	m, err := parseMachine("cpu  100 10 50 9999 7 3 2 40 0 0")
	require.NoError(t, err)
	require.Equal(t, Machine{Busy: 1650 * time.Millisecond, Stolen: 400 * time.Millisecond}, m)
	_, err = parseMachine("intr 1 2 3 4 5 6 7 8 9")
	require.Error(t, err)
}

func TestThisMachineCanBeRead(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	t.Cleanup(func() { require.NoError(t, child.Process.Kill()); _ = child.Wait() })

	all, err := Snapshot()
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), all[child.Process.Pid].Parent)
	m, ok, err := ReadMemory(os.Getpid())
	require.NoError(t, err)
	require.True(t, ok)
	require.Positive(t, m.Peak)
	require.Positive(t, m.Anon)
	machine, err := ReadMachine()
	require.NoError(t, err)
	require.Positive(t, machine.Busy)
}

func TestAProcessThatHasEnded(t *testing.T) {
	t.Parallel()
	child := exec.Command("true")
	require.NoError(t, child.Run())
	_, ok, err := ReadMemory(child.Process.Pid)
	require.NoError(t, err)
	require.False(t, ok)
}
