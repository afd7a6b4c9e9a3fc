package local_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
	"railguard/deploy/local/profile"
	"railguard/services/paymentapi"
	"railguard/services/stubapi"
)

// patience bounds what a test waits for; none needs nearly as long.
const patience = 3 * time.Minute

// devProcess is a running `railguard dev`, as a person would start it.
type devProcess struct {
	cmd    *exec.Cmd
	data   string
	cache  string
	done   chan error
	output *lockedBuffer
}

type lockedBuffer struct {
	mutex sync.Mutex
	bytes bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.bytes.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.bytes.String()
}

// folder is a temporary folder that the databases' account can reach.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "railguard-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// runDev starts `railguard dev` on free ports and waits until other shells can find it.
func runDev(t *testing.T, args ...string) *devProcess {
	t.Helper()
	d := &devProcess{data: folder(t), cache: folder(t), done: make(chan error, 1), output: &lockedBuffer{}}
	d.cmd = exec.Command(binary, append([]string{"dev", "--free-ports", "--data-dir", d.data}, args...)...)
	d.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+d.cache, "HOME="+d.cache,
		// What a person may well have set; none of it may reach the processes.
		"PAYDB_URL=postgres://elsewhere", "LOCK_BACKEND=etcd", "TEMPORAL_ADDRESS=192.0.2.1:7233", "PGPORT=1", "RAIL_TYPO=1")
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	require.NoError(t, d.cmd.Start())
	go func() { d.done <- d.cmd.Wait() }()
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		_, err := profile.LoadFile(d.pointer())
		return err == nil || !alive(d.cmd.Process.Pid)
	}, patience, 20*time.Millisecond)
	require.FileExists(t, d.pointer(), d.output.String())
	return d
}

// pointer is where the profile lies for commands in other shells.
func (d *devProcess) pointer() string {
	return filepath.Join(d.cache, "railguard", "dev-profile.json")
}

// railguard is a command in another shell of the same person.
func (d *devProcess) railguard(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{"XDG_CACHE_HOME=" + d.cache, "HOME=" + d.cache}
	return cmd
}

// wait returns how the command ended.
func (d *devProcess) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-d.done:
		return err
	case <-time.After(patience):
		require.Fail(t, "railguard dev did not end", d.output.String())
		return nil
	}
}

// descendants are the ids of all processes under pid, whoever they are.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	children := map[int][]int{}
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state ppid …; the name may hold blanks and brackets
		end := bytes.LastIndexByte(data, ')')
		fields := strings.Fields(string(data[end+1:]))
		id, err1 := strconv.Atoi(strings.Fields(string(data))[0])
		parent, err2 := strconv.Atoi(fields[1])
		require.NoError(t, err1)
		require.NoError(t, err2)
		children[parent] = append(children[parent], id)
	}
	var all []int
	for next := children[pid]; len(next) > 0; {
		id := next[0]
		all = append(all, id)
		next = append(next[1:len(next):len(next)], children[id]...)
	}
	return all
}

func requireGone(t *testing.T, ids []int) {
	t.Helper()
	for _, id := range ids {
		require.Eventuallyf(t, func() bool { return !running(id) }, patience, 20*time.Millisecond, "process %d is left: %s", id, commandLine(id))
	}
}

// running tells a process from one that has ended and waits for its parent to notice.
func running(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return !strings.HasPrefix(string(data[bytes.LastIndexByte(data, ')')+1:]), " Z")
}

func commandLine(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(data), "\x00", " ")
}

func TestKillingDevLeavesNoProcessAndItsDataUsable(t *testing.T) {
	t.Parallel()
	d := runDev(t, "--headless")
	all := descendants(t, d.cmd.Process.Pid)
	require.Greater(t, len(all), 10, "two databases with their own processes, Temporal, and the services")
	p, err := profile.LoadFile(d.pointer())
	require.NoError(t, err)
	bearer, err := os.ReadFile(p.Tokens["operator2"])
	require.NoError(t, err)
	out, err := d.railguard("account", "create", "kept-eur", "--currency", "EUR", "--opening", "10.00").CombinedOutput()
	require.NoError(t, err, string(out))

	require.NoError(t, d.cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, d.wait(t))
	requireGone(t, all)

	again := start(t, local.Options{DataDir: d.data, Headless: true})
	require.Equal(t, "kept-eur", query(t, again.PaydbURL(), "SELECT account_id FROM account WHERE kind = 'CUSTOMER'"))
	require.Equal(t, string(bearer), again.Bearer("operator2"))
	require.Equal(t, p.PaydbURL[:strings.LastIndex(p.PaydbURL, ":")], again.ReaderURL()[:strings.LastIndex(again.ReaderURL(), ":")], "the same password")
	_, err = local.Start(t.Context(), local.Options{DataDir: d.data, Binary: binary})
	require.ErrorContains(t, err, "another stack is running on "+d.data)
}

func TestAnInterruptOrAClosedTerminalEndsDevInOrder(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			d := runDev(t)
			all := descendants(t, d.cmd.Process.Pid)
			require.NoError(t, d.cmd.Process.Signal(sig))
			require.NoError(t, d.wait(t), d.output.String())
			requireGone(t, all)
			require.NoFileExists(t, d.pointer(), "commands of other shells must not find a stack that is gone")
		})
	}
}

func TestDevEndsWhenAProcessDies(t *testing.T) {
	t.Parallel()
	d := runDev(t, "--headless")
	p, err := profile.LoadFile(d.pointer())
	require.NoError(t, err)
	all := descendants(t, d.cmd.Process.Pid)
	victim := 0
	for _, id := range all {
		if strings.Contains(commandLine(id), "start-dev") {
			victim = id
		}
	}
	require.NotZero(t, victim)
	require.NoError(t, syscall.Kill(victim, syscall.SIGKILL))
	require.Error(t, d.wait(t))
	require.Contains(t, d.output.String(), "temporal has ended by itself")
	require.Contains(t, d.output.String(), filepath.Join(d.data, "logs", "temporal.log"))
	requireGone(t, all)
	_, err = net.Dial("tcp", p.TemporalAddress)
	require.Error(t, err)
}

func TestDevNamesABusyPortAndItsFlag(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	data := folder(t)
	out, err := exec.Command(binary, "dev", "--free-ports", "--data-dir", data, "--paydb-port", port).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "port "+port+" of paydb is busy")
	require.Contains(t, string(out), "--paydb-port")
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing was started or written")
}

func TestASecondInterruptDoesNotWaitForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	d := runDev(t, "--headless", "--env", "rail-proxy:RAIL_TIMEOUT=40s",
		"--env", "worker:SUBMIT_BUDGET=41s", "--env", "worker:PAYOUT_LOCK_TTL=60s", "--env", "worker:LOCK_SAFETY_MARGIN=0.1")
	p, err := profile.LoadFile(d.pointer())
	require.NoError(t, err)
	stub, err := stubapi.NewClient(p.RailStub)
	require.NoError(t, err)
	late := int64(35_000)
	require.NoError(t, stub.SetFaults(t.Context(), stubapi.Faults{Faults: []stubapi.Fault{{Kind: stubapi.Hang, LatencyMillis: &late}}}))
	run := func(args ...string) string {
		out, err := d.railguard(args...).Output()
		require.NoError(t, err)
		return string(out)
	}
	run("account", "create", "slow-eur", "--currency", "EUR", "--opening", "10.00")
	var payout paymentapi.Payout
	require.NoError(t, json.Unmarshal([]byte(run("payout", "create", "--account", "slow-eur", "--amount", "1.00", "--currency", "EUR",
		"--beneficiary", "b-1", "--external-ref", "slow-1", "--output", "json")), &payout))
	run("payout", "run", payout.PayoutID, "--no-wait")
	require.Eventually(t, func() bool {
		log, err := stub.Requests(t.Context(), payout.PayoutID)
		return err == nil && len(log.Requests) == 1
	}, patience, 20*time.Millisecond)

	all := descendants(t, d.cmd.Process.Pid)
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	require.Eventually(t, func() bool { return strings.Contains(d.output.String(), "stopping worker") }, patience, 20*time.Millisecond)
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	require.Error(t, d.wait(t), "an orderly end is code 0")
	require.Contains(t, d.output.String(), "interrupted again")
	requireGone(t, all)
}

func TestTheDemonstrationComesOutAsExpected(t *testing.T) {
	t.Parallel()
	cache := folder(t)
	cmd := exec.Command(binary, "demo", "--exit", "--free-ports", "--headless")
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "HOME="+cache)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, 30, strings.Count(string(out), " demo-00"), string(out))
	require.Contains(t, string(out), "RAIL_AMBIGUOUS")
	require.Contains(t, string(out), "INV-02")
}
