// Package procfs reads what Linux knows about the CPU time and the memory of processes.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ, which is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// Process is one line of /proc/<pid>/stat.
type Process struct {
	PID, Parent int
	CPU         time.Duration // of the process and of its children that have ended and been waited for; in steps of 10 ms
}

// Memory is the resident memory of one process, in bytes.
type Memory struct {
	Peak   int64 // of all kinds, the most there ever was: VmHWM
	Anon   int64 // its own
	File   int64 // of mapped files, the program above all; shared with others that map them
	Shared int64 // shared memory, as far as this process has touched it
}

// Snapshot reads every process there is. One that ends meanwhile is left out.
func Snapshot() (map[int]Process, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make(map[int]Process, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := parseStat(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all[p.PID] = p
	}
	return all, nil
}

// gone reports that a process ended before its file was read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

func parseStat(data []byte) (Process, error) {
	// The name, in parentheses, may hold spaces and parentheses of its own: what follows the last one is regular.
	end := bytes.LastIndexByte(data, ')')
	pid, _, found := bytes.Cut(data, []byte(" "))
	if end < 0 || !found {
		return Process{}, errors.New("not a line of process status")
	}
	fields := strings.Fields(string(data[end+1:]))
	const parent, utime, lastChildTime = 1, 11, 14 // counted from the state, which is proc(5)'s field 3
	if len(fields) <= lastChildTime {
		return Process{}, errors.New("not a line of process status")
	}
	var p Process
	var err error
	if p.PID, err = strconv.Atoi(string(pid)); err != nil {
		return Process{}, err
	}
	if p.Parent, err = strconv.Atoi(fields[parent]); err != nil {
		return Process{}, err
	}
	for _, field := range fields[utime : lastChildTime+1] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Process{}, err
		}
		p.CPU += time.Duration(ticks) * tick
	}
	return p, nil
}

// Tree is a process with its children and theirs.
func Tree(all map[int]Process, root int) []Process {
	first, ok := all[root]
	if !ok {
		return nil
	}
	tree := []Process{first}
	for i := 0; i < len(tree); i++ {
		for _, p := range all {
			if p.Parent == tree[i].PID {
				tree = append(tree, p)
			}
		}
	}
	return tree
}

// ReadMemory reads the memory of a process; ok is false when it has ended.
func ReadMemory(pid int) (m Memory, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if gone(err) {
		return Memory{}, false, nil
	}
	if err != nil {
		return Memory{}, false, err
	}
	m, err = parseStatus(string(data))
	return m, err == nil, err
}

func parseStatus(status string) (Memory, error) {
	var m Memory
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		into, ok := map[string]*int64{"VmHWM": &m.Peak, "RssAnon": &m.Anon, "RssFile": &m.File, "RssShmem": &m.Shared}[name]
		if !ok {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = kilobytes << 10
	}
	return m, nil
}

// Machine is what all CPUs together have spent since the machine started.
type Machine struct {
	Busy   time.Duration // running processes, of whomever
	Stolen time.Duration // wanted, and given to other guests of the same host
}

// ReadMachine reads the first line of /proc/stat.
func ReadMachine() (Machine, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return parseMachine(line)
}

func parseMachine(line string) (Machine, error) {
	fields := strings.Fields(line)
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	if len(fields) <= steal || fields[0] != "cpu" {
		return Machine{}, fmt.Errorf("%q is not the machine's CPU time", line)
	}
	var m Machine
	for _, i := range []int{user, nice, system, irq, softirq, steal} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return Machine{}, err
		}
		if i == steal {
			m.Stolen = time.Duration(ticks) * tick
		} else {
			m.Busy += time.Duration(ticks) * tick
		}
	}
	return m, nil
}
