package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"railguard/deploy/local"
	"railguard/harness/invariants"
	"railguard/services/stubapi"
	"railguard/workflows"
)

// maxRailLog is the number of payouts up to which the rail's own log is compared too; a longer one is no single answer.
const maxRailLog = 10_000

// wrongs says what is wrong with the payouts that were executed: fast and wrong is no speed. It believes the database and
// the rail's log, not the workflows' results alone.
func wrongs(ctx context.Context, s *system, executed int, outcomes map[workflows.Outcome]int) ([]string, error) {
	wrong := []string{}
	if outcomes[workflows.OutcomePosted] != executed {
		wrong = append(wrong, fmt.Sprintf("of %d payouts, the workflows report %v", executed, outcomes))
	}
	conn, err := pgx.Connect(ctx, s.stack.ReaderURL())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is pending on it
	var posted int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM payout WHERE state = 'POSTED'").Scan(&posted); err != nil {
		return nil, err
	}
	if posted != executed {
		wrong = append(wrong, fmt.Sprintf("of %d payouts, the database has %d POSTED", executed, posted))
	}
	requests, err := railLog(ctx, s, executed)
	if err != nil {
		return nil, err
	}
	report, err := invariants.Check(ctx, conn, requests)
	if err != nil {
		return nil, err
	}
	for _, f := range report.Findings {
		wrong = append(wrong, fmt.Sprintf("%s %s: %s (%d rows)", f.Invariant, f.Name, f.Sentence, f.Offending))
	}
	return wrong, nil
}

func railLog(ctx context.Context, s *system, executed int) ([]stubapi.Request, error) {
	if executed > maxRailLog {
		return nil, nil
	}
	stub, err := stubapi.NewClient(s.stack.URL(local.RailStub))
	if err != nil {
		return nil, err
	}
	log, err := stub.Requests(ctx, "")
	if err != nil {
		return nil, err
	}
	return log.Requests, nil
}
