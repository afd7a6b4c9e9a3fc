package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"railguard/harness/fencing/evidence"
	"railguard/harness/fencing/report"
)

// file is the path of a file of the attempt's capture.
func (t *attempt) file(name string) string { return filepath.Join(t.dir, name) }

// writeEvents writes the guards' events as they were logged.
func (t *attempt) writeEvents(events []event) error {
	var b bytes.Buffer
	for _, e := range events {
		b.Write(e.raw)
		b.WriteByte('\n')
	}
	return os.WriteFile(t.file("events.jsonl"), b.Bytes(), 0o644)
}

// writeFacts writes the rail's log and the books of an attempt; the workers have written their logs there themselves.
func (t *attempt) writeFacts() error {
	return errors.Join(
		writeJSON(t.file("rail-requests.json"), map[string]any{
			"startedAtBefore": t.facts.StubStartedBefore, "startedAtAfter": t.facts.StubStartedAfter, "requests": t.facts.Requests}),
		writeJSON(t.file("books.json"), map[string]any{
			"accountId": t.facts.AccountID, "payoutId": t.facts.PayoutID, "before": t.facts.Before, "after": t.facts.After,
			"funding": t.facts.Funding, "ledger": t.facts.Ledger, "claims": t.facts.Claims, "submissions": t.facts.Submissions}),
	)
}

// newCapture makes the folder of a run; a second run of the same second gets another.
func newCapture(root string, mode evidence.Mode, pause evidence.Pause, now time.Time) (string, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("--out: %w", err)
	}
	name := now.UTC().Format("20060102T150405Z") + "-" + string(mode)
	if pause == evidence.NoPause {
		name += "-no-pause"
	}
	for try := 1; ; try++ {
		dir := filepath.Join(root, name)
		if try > 1 {
			dir = fmt.Sprintf("%s.%d", dir, try)
		}
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("--out: %w", err)
		}
	}
}

// writeSnapshot writes what the guards' /metrics said.
func writeSnapshot(dir, when string, s snapshot) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "metrics-payment-resource-"+when+".txt"), s.account, 0o644),
		os.WriteFile(filepath.Join(dir, "metrics-rail-proxy-"+when+".txt"), s.rail, 0o644),
	)
}

// writeVerdict writes verdict.json and report.html.
func writeVerdict(dir string, run evidence.Run) error {
	if err := writeJSON(filepath.Join(dir, "verdict.json"), run); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.Write(&page, run); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "report.html"), page.Bytes(), 0o644)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
