// Package invariants checks, from what the databases hold, that what must always be true is true: INV-01, 02, 03, 05, 07 and 08 of
// the payouts. It asserts effects, never beliefs: two processes may both believe that they hold a lock; two of
// them getting a mutation accepted is the failure. SELECT on the tables of payment-resource and rail-proxy suffices.
package invariants

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"railguard/services/stubapi"
)

// Queryer is a connection, a pool or a transaction on paydb. Each check is one statement and so sees one
// moment; on a system that is at work a transaction of REPEATABLE READ makes it the same moment for all of them.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Report is what Check found. An empty database breaks no invariant and is no evidence of anything: Checks say
// how many rows stand behind each verdict.
type Report struct {
	Checks   []Checked `json:"checks"`
	Findings []Finding `json:"findings"`
}

// Checked is one check that was made.
type Checked struct {
	Invariant string `json:"invariant"` // such as INV-02
	Name      string `json:"name"`      // short and stable, such as "presented-once"
	Looked    int64  `json:"looked"`    // rows looked at
	Offending int64  `json:"offending"`
}

// Finding is one check that failed.
type Finding struct {
	Invariant string           `json:"invariant"`
	Name      string           `json:"name"`
	Sentence  string           `json:"sentence"`  // what is wrong with the rows
	Offending int64            `json:"offending"` // how many there are
	Columns   []string         `json:"columns"`   // the order in which to show the values of a row
	Rows      []map[string]any `json:"rows"`      // the first MaxRows of them
}

// MaxRows bounds the rows that a finding shows.
const MaxRows = 100

// OK reports whether no check failed.
func (r Report) OK() bool { return len(r.Findings) == 0 }

// Looked is how many rows all checks together looked at.
func (r Report) Looked() int64 {
	var n int64
	for _, c := range r.Checks {
		n += c.Looked
	}
	return n
}

// check is one statement of an invariant. looked counts the rows that it is about, offending selects those that break
// it; both get the rail's log as $1 (client references, one a request) when ofLog.
type check struct {
	invariant, name, sentence string
	looked, offending         string
	ofLog                     bool
}

func all() []check {
	return append(append(append(append(append(orderChecks(), presentedChecks()...), ledgerChecks()...),
		fenceChecks()...), grantChecks()...), stateChecks()...)
}

// Check runs every check over paydb. requests is the rail stub's own log of this database's payouts, read before Check is called so that
// every request in it has its record; nil leaves the comparison out.
func Check(ctx context.Context, conn Queryer, requests []stubapi.Request) (Report, error) {
	refs := make([]string, len(requests))
	for i, r := range requests {
		refs[i] = r.ClientRef
	}
	report := Report{Findings: []Finding{}}
	for _, c := range all() {
		if c.ofLog && requests == nil {
			continue
		}
		var args []any
		if c.ofLog {
			args = []any{refs}
		}
		looked, err := count(ctx, conn, c.looked, args)
		if err != nil {
			return Report{}, fmt.Errorf("%s %s: %w", c.invariant, c.name, err)
		}
		finding, err := find(ctx, conn, c, args)
		if err != nil {
			return Report{}, fmt.Errorf("%s %s: %w", c.invariant, c.name, err)
		}
		report.Checks = append(report.Checks, Checked{c.invariant, c.name, looked, finding.Offending})
		if finding.Offending > 0 {
			report.Findings = append(report.Findings, finding)
		}
	}
	return report, nil
}

func count(ctx context.Context, conn Queryer, sql string, args []any) (int64, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
}

func find(ctx context.Context, conn Queryer, c check, args []any) (Finding, error) {
	finding := Finding{Invariant: c.invariant, Name: c.name, Sentence: c.sentence, Rows: []map[string]any{}}
	rows, err := conn.Query(ctx, c.offending, args...)
	if err != nil {
		return finding, err
	}
	defer rows.Close()
	for _, field := range rows.FieldDescriptions() {
		finding.Columns = append(finding.Columns, field.Name)
	}
	for rows.Next() {
		finding.Offending++
		if finding.Offending > MaxRows {
			continue
		}
		values, err := rows.Values()
		if err != nil {
			return finding, err
		}
		row := make(map[string]any, len(values))
		for i, value := range values {
			row[finding.Columns[i]] = value
		}
		finding.Rows = append(finding.Rows, row)
	}
	return finding, rows.Err()
}

// String is the report for a person: a line a check, then the findings with their rows.
func (r Report) String() string {
	var b strings.Builder
	for _, c := range r.Checks {
		verdict := "holds"
		switch {
		case c.Offending > 0:
			verdict = fmt.Sprintf("VIOLATED by %d", c.Offending)
		case c.Looked == 0:
			verdict = "no evidence"
		}
		_, _ = fmt.Fprintf(&b, "%s %-24s %7d looked at: %s\n", c.Invariant, c.Name, c.Looked, verdict)
	}
	for _, f := range r.Findings {
		_, _ = fmt.Fprintf(&b, "\n%s %s: %s\n", f.Invariant, f.Name, f.Sentence)
		for _, row := range f.Rows {
			_, _ = fmt.Fprintf(&b, "  %s\n", f.line(row))
		}
		if more := f.Offending - int64(len(f.Rows)); more > 0 {
			_, _ = fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	return b.String()
}

func (f Finding) line(row map[string]any) string {
	pairs := make([]string, len(f.Columns))
	for i, column := range f.Columns {
		value := row[column]
		switch v := value.(type) {
		case nil:
			value = "NULL"
		case time.Time:
			value = v.UTC().Format(time.RFC3339Nano)
		}
		pairs[i] = fmt.Sprintf("%s=%v", column, value)
	}
	return strings.Join(pairs, " ")
}
