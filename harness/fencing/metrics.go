package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"railguard/harness/fencing/evidence"
)

// The counters of the guards that must account for every refusal, by the guard that has them.
var (
	accountCounters = []string{`lock_fenced_out_total{resource="account"}`, `lock_fenced_out_total{resource="ledger"}`}
	railCounters    = []string{`lock_fenced_out_total{resource="rail"}`, `rail_duplicate_attempted_total`}
)

// snapshot is what both guards' /metrics said at one moment.
type snapshot struct{ account, rail []byte }

func (s *system) snapshot(ctx context.Context) (snap snapshot, err error) {
	if snap.account, err = scrape(ctx, s.profile.PaymentResource); err != nil {
		return snap, err
	}
	snap.rail, err = scrape(ctx, s.profile.RailProxy)
	return snap, err
}

func scrape(ctx context.Context, base string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read from
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: %s", base, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, 8<<20))
}

// value finds a counter, named as in the exposition. One that is missing is an error: an absent series disarms every check of it.
func value(exposition []byte, name string) (int64, error) {
	lines := bufio.NewScanner(bytes.NewReader(exposition))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
			v, err := strconv.ParseFloat(text, 64)
			return int64(v), err
		}
	}
	return 0, fmt.Errorf("there is no %s in the guard's metrics", name)
}

// counters compares two snapshots with the events of all attempts.
func counters(before, after snapshot, repetitions []evidence.Repetition) ([]evidence.Counter, error) {
	events := make(map[string]int64)
	for _, repetition := range repetitions {
		for _, attempt := range repetition.Attempts {
			for _, r := range attempt.Facts.Refusals {
				events[fmt.Sprintf("lock_fenced_out_total{resource=%q}", r.Resource)]++
			}
			events["rail_duplicate_attempted_total"] += int64(len(attempt.Facts.Duplicates))
		}
	}
	var all []evidence.Counter
	for _, guard := range []struct {
		names         []string
		before, after []byte
	}{{accountCounters, before.account, after.account}, {railCounters, before.rail, after.rail}} {
		for _, name := range guard.names {
			from, err := value(guard.before, name)
			if err != nil {
				return nil, err
			}
			to, err := value(guard.after, name)
			if err != nil {
				return nil, err
			}
			all = append(all, evidence.Counter{Name: name, Before: from, After: to, Events: events[name]})
		}
	}
	return all, nil
}
