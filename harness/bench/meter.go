package main

import (
	"context"
	"sync"
	"time"

	"railguard/harness/bench/procfs"
)

// kind tells the two things that are measured apart.
type kind string

const (
	payoutKind kind = "payout"
	bareKind   kind = "bare"
)

// watched is a process, or a process and its children, whose cost is told under one name.
type watched struct {
	name string
	pid  int
	ours bool // one of the product's
	tree bool
}

// meter adds up the CPU time that the watched processes spend in the blocks of each kind, and that everything else on the machine spends.
type meter struct {
	watched []watched
	used    map[kind]map[string]time.Duration
	others  map[kind]time.Duration // spent by processes that are not watched
	stolen  map[kind]time.Duration // kept from the machine by its host

	base map[string]int64 // the peak memory when measuring began, in bytes

	mutex sync.Mutex
	peaks map[string]int64 // of the trees, in bytes
}

func newMeter(all []watched) *meter {
	return &meter{
		watched: all,
		used:    map[kind]map[string]time.Duration{payoutKind: {}, bareKind: {}},
		others:  map[kind]time.Duration{}, stolen: map[kind]time.Duration{}, base: map[string]int64{}, peaks: map[string]int64{},
	}
}

// begin notes the memory that the warm-up has taken.
func (m *meter) begin() error {
	for _, w := range m.watched {
		peak, err := m.peak(w)
		if err != nil {
			return err
		}
		m.base[w.name] = peak
	}
	return nil
}

// settle is how long the engine gets after a block to finish what it puts off, such as the visibility records. It counts
// as the block's CPU and not as its time.
const settle = 500 * time.Millisecond

// during books what is spent while do runs, and while what it left over settles, under k.
func (m *meter) during(ctx context.Context, k kind, do func() error) error {
	before, machineBefore, err := m.read()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := rest(ctx, settle); err != nil {
		return err
	}
	after, machineAfter, err := m.read()
	if err != nil {
		return err
	}
	others := machineAfter.Busy - machineBefore.Busy
	for name, cpu := range after {
		m.used[k][name] += cpu - before[name]
		others -= cpu - before[name]
	}
	m.others[k] += max(0, others)
	m.stolen[k] += machineAfter.Stolen - machineBefore.Stolen
	return nil
}

func (m *meter) read() (map[string]time.Duration, procfs.Machine, error) {
	machine, err := procfs.ReadMachine()
	if err != nil {
		return nil, machine, err
	}
	all, err := procfs.Snapshot()
	if err != nil {
		return nil, machine, err
	}
	cpu := map[string]time.Duration{}
	for _, w := range m.watched {
		for _, p := range w.processes(all) {
			cpu[w.name] += p.CPU
		}
	}
	return cpu, machine, nil
}

func (w watched) processes(all map[int]procfs.Process) []procfs.Process {
	if w.tree {
		return procfs.Tree(all, w.pid)
	}
	if p, ok := all[w.pid]; ok {
		return []procfs.Process{p}
	}
	return nil
}

// watchTrees keeps the peak memory of the watched trees until ctx ends: no process knows that of a tree.
func (m *meter) watchTrees(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		all, err := procfs.Snapshot()
		if err != nil {
			return err
		}
		for _, w := range m.watched {
			if !w.tree {
				continue
			}
			bytes, err := treeMemory(w.processes(all))
			if err != nil {
				return err
			}
			m.mutex.Lock()
			m.peaks[w.name] = max(m.peaks[w.name], bytes)
			m.mutex.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// treeMemory counts what the processes of a database have in common, the program and the shared buffers, once: as the
// largest part of it that one of them has touched.
func treeMemory(tree []procfs.Process) (int64, error) {
	var anon, file, shared int64
	for _, p := range tree {
		memory, ok, err := procfs.ReadMemory(p.PID)
		if err != nil {
			return 0, err
		}
		if ok {
			anon += memory.Anon
			file, shared = max(file, memory.File), max(shared, memory.Shared)
		}
	}
	return anon + file + shared, nil
}

// peak is the most memory that w has had, in bytes.
func (m *meter) peak(w watched) (int64, error) {
	if w.tree {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		return m.peaks[w.name], nil
	}
	memory, _, err := procfs.ReadMemory(w.pid)
	return memory.Peak, err
}

// rest waits, or returns the error of ctx.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
