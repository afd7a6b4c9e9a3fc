package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"railguard/deploy/local"
	"railguard/deploy/local/profile"
	"railguard/harness/fencing/evidence"
	"railguard/harness/invariants"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/stubapi"
)

// ownerID is who the experiment says it is.
const ownerID = "fencing-experiment"

// system is the running Railguard that the experiment is made on, seen as a user sees it.
type system struct {
	profile  *profile.Profile
	binary   string
	stack    *local.Stack // nil when it was running before
	payments *paymentapi.Client
	locks    *lockapi.Client
	stub     *stubapi.Client
	temporal client.Client
	paydb    *pgxpool.Pool // the SELECT-only role

	// From here on the guards' logs are this run's.
	accountGuardLog, railGuardLog *logFile

	putBack func(context.Context) error // what was changed in a running system
}

// openSystem starts a system with the mode's switches, or connects to the one that runs.
func openSystem(ctx context.Context, o options, progress io.Writer) (*system, error) {
	s := &system{putBack: func(context.Context) error { return nil }}
	if err := s.open(ctx, o, progress); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *system) open(ctx context.Context, o options, progress io.Writer) (err error) {
	if s.binary, err = checkBinary(o.binary); err != nil {
		return err
	}
	if o.stack == localStack {
		err = s.start(ctx, o, progress)
	} else {
		err = s.find(o)
	}
	if err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if s.stack == nil {
		s.putBack, err = pauseSchedules(ctx, s.temporal)
	}
	return err
}

// start starts everything but workers, with the two switches set by environment.
func (s *system) start(ctx context.Context, o options, progress io.Writer) (err error) {
	env := map[string][]string{
		local.PaymentResource: {fmt.Sprintf("PAYMENT_FENCING_ENABLED=%t", o.mode.AccountGuard())},
		local.RailProxy:       {fmt.Sprintf("RAIL_PROXY_FENCING_ENABLED=%t", o.mode.RailGuard()), "RAIL_TIMEOUT=" + o.railTimeout.String()},
		// The rail's own time is not what is looked at.
		local.RailStub: {"RAIL_STUB_LATENCY=50ms"},
	}
	for name, more := range o.interference.env {
		env[name] = append(env[name], more...)
	}
	s.stack, err = local.Start(ctx, local.Options{Binary: s.binary, Env: env, NoWorker: true, Headless: !o.keep, Out: progress})
	if err != nil {
		return err
	}
	s.profile = s.stack.Profile()
	return nil
}

func (s *system) find(o options) (err error) {
	if o.profilePath != "" {
		s.profile, err = profile.LoadFile(o.profilePath)
	} else {
		s.profile, err = profile.Load()
	}
	if err != nil {
		return &usageError{fmt.Errorf("--stack running: %w", err)}
	}
	if s.profile.Logs == "" || s.profile.Tokens["executor"] == "" || s.profile.Tokens["intake"] == "" {
		return usage("--stack running: the profile does not say where the logs and the tokens of executor and intake are; it is of an older railguard dev")
	}
	return nil
}

func (s *system) connect(ctx context.Context) error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	intake, err := identity(s.profile.Tokens["intake"])
	note(err)
	executor, err := identity(s.profile.Tokens["executor"])
	note(err)
	s.payments, err = paymentapi.NewClient(s.profile.PaymentResource, intake)
	note(err)
	s.locks, err = lockapi.NewClient(s.profile.LockServer, executor)
	note(err)
	s.stub, err = stubapi.NewClient(s.profile.RailStub)
	note(err)
	config, err := pgxpool.ParseConfig(s.profile.PaydbURL)
	note(err)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if s.paydb, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	s.temporal, err = client.DialContext(ctx, client.Options{HostPort: s.profile.TemporalAddress, Namespace: s.profile.TemporalNamespace,
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return fmt.Errorf("temporal at %s: %w", s.profile.TemporalAddress, err)
	}
	if s.accountGuardLog, err = openLogAtEnd(filepath.Join(s.profile.Logs, local.PaymentResource+".log")); err != nil {
		return err
	}
	s.railGuardLog, err = openLogAtEnd(filepath.Join(s.profile.Logs, local.RailProxy+".log"))
	return err
}

func identity(tokenFile string) (httpclient.Identity, error) {
	bearer, err := os.ReadFile(tokenFile)
	return httpclient.Identity{Bearer: strings.TrimSpace(string(bearer))}, err
}

// close puts back what was changed and ends what was started, also after ctx has ended.
func (s *system) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	err := s.putBack(ctx)
	if s.temporal != nil {
		s.temporal.Close()
	}
	if s.paydb != nil {
		s.paydb.Close()
	}
	if s.stack != nil {
		err = errors.Join(err, s.stack.Stop())
	}
	return err
}

// guards asks both guards what they are and where their switches stand.
func (s *system) guards(ctx context.Context) (g evidence.Guards, err error) {
	for base, info := range map[string]*evidence.GuardInfo{s.profile.PaymentResource: &g.PaymentResource, s.profile.RailProxy: &g.RailProxy} {
		c, err := httpclient.New(base, httpclient.Identity{}, httpclient.Reads)
		if err != nil {
			return g, err
		}
		if err := c.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/info"}, info); err != nil {
			return g, fmt.Errorf("%s/info: %w", base, err)
		}
	}
	return g, nil
}

// checkInvariants runs the invariant checker over the whole paydb and the rail's log.
func (s *system) checkInvariants(ctx context.Context) ([]evidence.Finding, error) {
	requests, err := s.stub.Requests(ctx, "")
	if err != nil {
		return nil, err
	}
	var report invariants.Report
	err = pgx.BeginTxFunc(ctx, s.paydb, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		report, err = invariants.Check(ctx, tx, requests.Requests)
		return err
	})
	if err != nil {
		return nil, err
	}
	findings := []evidence.Finding{}
	for _, f := range report.Findings {
		findings = append(findings, evidence.Finding{Invariant: f.Invariant, Name: f.Name, Sentence: f.Sentence, Offending: f.Offending})
	}
	return findings, nil
}
