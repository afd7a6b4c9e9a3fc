package main

import (
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/workflowservice/v1"
)

// Machine is what the figures were taken on. A figure without it says little.
type Machine struct {
	CPUs         int     `json:"cpus"`
	CPUModel     string  `json:"cpuModel"`
	MemoryMiB    int64   `json:"memoryMiB"`
	Kernel       string  `json:"kernel"`
	Go           string  `json:"go"`
	PostgreSQL   string  `json:"postgresql"`
	Temporal     string  `json:"temporal"`
	LoadAverage  string  `json:"loadAverage"`  // of the minute before the run
	CommitMillis float64 `json:"commitMillis"` // the median of a transaction of one connection that writes next to nothing, durably
}

func describeMachine(ctx context.Context, s *system) (Machine, error) {
	m := Machine{
		CPUs:     runtime.NumCPU(),
		CPUModel: valueOf("/proc/cpuinfo", "model name"),
		Kernel:   firstWord(contents("/proc/sys/kernel/osrelease")), Go: runtime.Version(),
		LoadAverage: firstWord(contents("/proc/loadavg")),
		MemoryMiB:   kilobytes(valueOf("/proc/meminfo", "MemTotal")) >> 10,
	}
	info, err := s.temporal.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return m, err
	}
	m.Temporal = info.GetServerVersion()
	conn, err := pgx.Connect(ctx, s.stack.PaydbURL())
	if err != nil {
		return m, err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is pending on it
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&m.PostgreSQL); err != nil {
		return m, err
	}
	m.CommitMillis, err = commitMillis(ctx, conn)
	return m, err
}

// commitMillis times commits that write one small record to the log and nothing to any table.
func commitMillis(ctx context.Context, conn *pgx.Conn) (float64, error) {
	const tries = 200
	times := make([]time.Duration, tries)
	for i := range times {
		began := time.Now()
		if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'bench', 'x')"); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	return millis(percentile(times, 50)), nil
}

// contents is a file's text, "" when there is none: another kernel may lack what only describes the machine.
func contents(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// valueOf is the value of the first line "name : value" of a file.
func valueOf(path, name string) string {
	for line := range strings.Lines(contents(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	return word
}
