package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"railguard/deploy/local"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/stubapi"
)

// running is the one system that the tests of this file talk to, started by the first of them and
// stopped by TestMain. Each test works on accounts of its own.
var running struct {
	once    sync.Once
	stack   *local.Stack
	profile string
	dir     string
	err     error
}

func startRunning() {
	running.dir, running.err = os.MkdirTemp("", "railguard-cli-")
	if running.err != nil {
		return
	}
	binary := filepath.Join(running.dir, "railguard")
	if out, err := exec.Command("go", "build", "-o", binary, "railguard").CombinedOutput(); err != nil {
		running.err = fmt.Errorf("go build: %w: %s", err, out)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	running.stack, running.err = local.Start(ctx, local.Options{Binary: binary, Volatile: true, Headless: true, Env: map[string][]string{
		local.RailProxy: {"RAIL_TIMEOUT=2s"},
		local.RailStub:  {"RAIL_STUB_LATENCY=5ms"},
	}})
	if running.err != nil {
		return
	}
	running.profile = filepath.Join(running.dir, "profile.json")
	running.err = running.stack.Profile().Save(running.profile)
}

func stopRunning() {
	if running.stack != nil {
		if err := running.stack.Stop(); err != nil {
			panic(err)
		}
	}
	if running.dir != "" {
		_ = os.RemoveAll(running.dir)
	}
}

// system runs the command line against the running system.
type system struct{ t *testing.T }

func theSystem(t *testing.T) system {
	t.Helper()
	running.once.Do(startRunning)
	require.NoError(t, running.err)
	return system{t}
}

func (s system) run(args ...string) result { return s.feed("", args...) }

func (s system) feed(input string, args ...string) result {
	s.t.Helper()
	return runWith(s.t.Context(), input, append(args, "--profile", running.profile)...)
}

// must is run, of which nothing else than exit code 0 is expected.
func (s system) must(args ...string) string {
	s.t.Helper()
	got := s.run(args...)
	require.Equal(s.t, ExitOK, got.code, "%v: %s%s", args, got.out, got.err)
	return got.out
}

// read is must, with the answer's JSON decoded into v.
func (s system) read(v any, args ...string) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.must(append(args, "--output", "json")...)), v))
}

// account opens an account with funds and returns its id.
func (s system) account(currency, opening string) string {
	s.t.Helper()
	id := "acc-" + uuid.NewString()[:13]
	s.must("account", "create", id, "--currency", currency, "--opening", opening)
	return id
}

// payout makes a PENDING payout, with the rail's behaviour towards it when one is given.
func (s system) payout(account, amount string, faults ...stubapi.Fault) string {
	s.t.Helper()
	var p paymentapi.Payout
	s.read(&p, "payout", "create", "--account", account, "--amount", amount, "--currency", "EUR", "--beneficiary", "b", "--external-ref", uuid.NewString())
	stub, err := stubapi.NewClient(running.stack.URL(local.RailStub))
	require.NoError(s.t, err)
	for _, f := range faults {
		f.ClientRef = p.PayoutID
		require.NoError(s.t, stub.AddFault(s.t.Context(), f))
	}
	return p.PayoutID
}

func fields(line string) []string { return strings.Fields(line) }

// row is the line of a table that begins with a word.
func row(t *testing.T, table, first string) []string {
	t.Helper()
	for line := range strings.Lines(table) {
		if words := fields(line); len(words) > 0 && words[0] == first {
			return words
		}
	}
	t.Fatalf("no line begins with %q:\n%s", first, table)
	return nil
}

func TestAccountsInBothForms(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	id := s.account("EUR", "1000.00")
	require.Equal(t, []string{"balance", "1000.00", "EUR"}, row(t, s.must("account", "get", id), "balance"))
	s.must("account", "create", id, "--currency", "EUR", "--opening", "1000.00")
	got := s.run("account", "create", id, "--currency", "EUR", "--opening", "1000.01")
	require.Equal(t, ExitRefused, got.code)
	require.Contains(t, got.err, "IDEMPOTENCY_CONFLICT")

	for range 2 { // the same reference funds once
		funded := s.must("account", "fund", id, "--amount", "0.05", "--external-ref", "topup-"+id)
		require.Equal(t, []string{"balance", "1000.05", "EUR"}, row(t, funded, "balance"))
	}
	got = s.run("account", "fund", id, "--amount", "0.005", "--external-ref", "x-"+id)
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "more than 2 decimal places of EUR")

	var a paymentapi.Account
	s.read(&a, "account", "get", id)
	require.Equal(t, paymentapi.Account{AccountID: id, Kind: paymentapi.Customer, Currency: "EUR", BalanceMinor: 100_005,
		AvailableMinor: 100_005, LedgerSumMinor: 100_005}, a)
	require.Equal(t, ExitRefused, s.run("account", "get", "no-such-account").code)
}

func TestAPayoutFromCreationToPosted(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	account := s.account("EUR", "10.00")
	id := s.payout(account, "2.50")
	require.Equal(t, "PENDING", row(t, s.must("payout", "get", id), "state")[1])

	table := s.must("payout", "run", id)
	require.Equal(t, []string{id, account, "posted", "POSTED"}, row(t, table, id)[:4])
	got := s.must("payout", "get", id)
	require.Equal(t, []string{"amount", "2.50", "EUR"}, row(t, got, "amount"))
	require.Equal(t, []string{"state", "POSTED"}, row(t, got, "state"))

	var again []payoutRun // a second run moves nothing and finds it POSTED
	s.read(&again, "payout", "run", id)
	require.Len(t, again, 1)
	require.Equal(t, paymentapi.Posted, again[0].State)
	var a paymentapi.Account
	s.read(&a, "account", "get", account)
	require.EqualValues(t, 750, a.BalanceMinor)
	require.EqualValues(t, 750, a.LedgerSumMinor)

	require.Equal(t, ExitRefused, s.run("payout", "cancel", id, "--reason", "too late").code)
	var page paymentapi.PayoutPage
	s.read(&page, "payout", "list", "--account", account, "--state", "POSTED")
	require.Len(t, page.Payouts, 1)
	require.Equal(t, id, page.Payouts[0].PayoutID)
}

func TestRunTellsEveryOutcome(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	account := s.account("EUR", "10.00")
	var runs []payoutRun
	outcome := func(code int, ids ...string) {
		t.Helper()
		got := s.run(append([]string{"payout", "run", "--output", "json"}, ids...)...)
		require.Equal(t, code, got.code, got.err)
		runs = nil
		require.NoError(t, json.Unmarshal([]byte(got.out), &runs))
	}
	declined := s.payout(account, "1.00", stubapi.Fault{Kind: stubapi.Decline})
	unknown := s.payout(account, "1.00", stubapi.Fault{Kind: stubapi.DropAfter})
	short := s.payout(account, "99.00")
	fine := s.payout(account, "1.00")
	outcome(ExitRefused, declined, unknown, short, fine)
	require.Equal(t, paymentapi.Failed, runs[0].State)
	require.Equal(t, paymentapi.RailAmbiguous, runs[1].State)
	require.Equal(t, paymentapi.Failed, runs[2].State)
	require.Equal(t, paymentapi.Posted, runs[3].State)

	outcome(ExitRefused, unknown) // nothing leaves the quarantine by being run again
	require.Equal(t, paymentapi.RailAmbiguous, runs[0].State)
	outcome(ExitOK, fine)

	got := s.run("payout", "watch", unknown)
	require.Equal(t, ExitRefused, got.code)
	require.Contains(t, got.err, "RAIL_AMBIGUOUS")
	nobody := uuid.NewString()
	got = s.run("payout", "run", nobody)
	require.Equal(t, ExitBadInput, got.code, got.err)
	require.Contains(t, got.err, "NOT_FOUND")
	require.Equal(t, ExitRefused, s.run("payout", "get", nobody).code)
}

func TestRunCanStartWithoutWaiting(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	id := s.payout(s.account("EUR", "10.00"), "1.00")
	require.Equal(t, []string{id, "payout-" + id}, row(t, s.must("payout", "run", "--no-wait", id), id)[:2])
	require.Contains(t, s.must("payout", "watch", id), "-> POSTED")
}

func TestWatchFollowsUntilThePayoutComesToRest(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	id := s.payout(s.account("EUR", "10.00"), "1.00")
	lines, out := io.Pipe()
	ended := make(chan int, 1)
	var errOut bytes.Buffer
	go func() {
		ended <- Run(t.Context(), []string{"payout", "watch", id, "--output", "json", "--profile", running.profile}, strings.NewReader(""), out, &errOut)
		_ = out.Close() // never fails
	}()
	scanner := bufio.NewScanner(lines)
	next := func() paymentapi.PayoutState {
		require.True(t, scanner.Scan())
		var w watched
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &w))
		require.Equal(t, id, w.PayoutID)
		return w.ToState
	}
	require.Equal(t, paymentapi.Pending, next()) // shown while the payout has not been run
	s.must("payout", "run", id)
	for _, want := range []paymentapi.PayoutState{paymentapi.Claimed, paymentapi.RailSubmitted, paymentapi.RailAcked, paymentapi.Posted} {
		require.Equal(t, want, next())
	}
	require.False(t, scanner.Scan())
	require.Equal(t, ExitOK, <-ended, errOut.String())
}

func TestWatchEndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	id := s.payout(s.account("EUR", "10.00"), "1.00")
	got := s.run("payout", "watch", id, "--timeout", "300ms")
	require.Equal(t, ExitFailed, got.code, got.err)
	require.Contains(t, got.err, "timeout")
}

func TestCancelEndsAPendingPayout(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	id := s.payout(s.account("EUR", "10.00"), "1.00")
	cancelled := s.must("payout", "cancel", id, "--reason", "not wanted any more", "--operator", "alice")
	require.Equal(t, []string{"state", "ABANDONED"}, row(t, cancelled, "state"))
	require.Equal(t, ExitRefused, s.run("payout", "watch", id).code)
}

func TestListGoesThroughEveryPage(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	account := s.account("EUR", "10.00")
	var want []string
	for range 5 {
		want = append(want, s.payout(account, "1.00"))
	}
	first := s.run("payout", "list", "--account", account, "--limit", "2")
	require.Equal(t, ExitOK, first.code)
	require.Equal(t, 3, strings.Count(first.out, "\n"), "a header and two rows")
	require.Contains(t, first.err, "--cursor")
	cursor := fields(first.err)[len(fields(first.err))-1]
	require.Equal(t, want[2], row(t, s.must("payout", "list", "--account", account, "--limit", "2", "--cursor", cursor), want[2])[0])

	var page paymentapi.PayoutPage
	s.read(&page, "payout", "list", "--account", account, "--limit", "2", "--all")
	var got []string
	for _, p := range page.Payouts {
		got = append(got, p.PayoutID)
	}
	require.Equal(t, want, got)
	require.Empty(t, page.NextCursor)
	require.Equal(t, ExitBadInput, s.run("payout", "list", "--cursor", "nonsense").code)
}

func TestLocksAreShownAndTaken(t *testing.T) {
	t.Parallel()
	s := theSystem(t)
	key := "payout:" + uuid.NewString()
	locks, err := lockapi.NewClient(running.stack.URL(local.LockServer), httpclient.Identity{Bearer: running.stack.Bearer(string(httpserver.Executor))})
	require.NoError(t, err)
	grant, err := locks.Acquire(t.Context(), key, "a-holder", lockapi.AcquireRequest{TTLMillis: 60_000})
	require.NoError(t, err)

	got := s.must("lock", "get", key)
	require.Equal(t, []string{"held", "yes"}, row(t, got, "held"))
	require.Equal(t, []string{"owner", "a-holder"}, row(t, got, "owner"))
	other := s.run("lock", "revoke", key, "--reason", "the holder is gone", "--expected-token", (grant.FencingToken + 1).String())
	require.Equal(t, ExitRefused, other.code, other.err)
	require.Equal(t, ExitBadInput, s.run("lock", "revoke", key, "--reason", "short").code)

	var v lockapi.Revocation
	s.read(&v, "lock", "revoke", key, "--reason", "the holder is gone", "--expected-token", grant.FencingToken.String())
	require.Equal(t, grant.FencingToken, v.RevokedToken)
	require.Greater(t, v.NewTokenFloor, grant.FencingToken)
	require.Equal(t, []string{"held", "no"}, row(t, s.must("lock", "get", key), "held"))
}

func TestHealthOfARealService(t *testing.T) {
	t.Parallel()
	theSystem(t)
	got := run(t, "health", "--url", running.stack.URL(local.PaymentResource))
	require.Equal(t, ExitOK, got.code, got.err)
	require.Contains(t, got.out, "UP")
}
