package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"railguard/deploy/local/profile"
	"railguard/services/apierr"
	"railguard/services/httpclient"
)

// result is what one run of the command line did.
type result struct {
	code     int
	out, err string
}

func run(t *testing.T, args ...string) result {
	t.Helper()
	return runWith(t.Context(), "", args...)
}

func runWith(ctx context.Context, input string, args ...string) result {
	var out, errOut bytes.Buffer
	code := Run(ctx, args, strings.NewReader(input), &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// closedURL is where nobody listens.
const closedURL = "http://127.0.0.1:1"

func tokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("secret\n"), 0o600))
	return path
}

const somePayout = "0b5a0f5e-6c1c-4a0e-8a39-0d2f5a1d7c11"

func TestBadInputIsNamedAndDoesNothing(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                "which command?",
		"payot":                           `did you mean "payout"?`,
		"payout":                          "which command?",
		"payout crate":                    `"crate" is not a command of "railguard payout"`,
		"payout list extra":               "usage: railguard payout list",
		"payout list --nonsense":          "--nonsense",
		"payout list --output xml":        "want table or json",
		"payout list --state LOST":        "--state",
		"payout list --limit 0":           "--limit",
		"payout list --limit 501":         "--limit",
		"payout list --account a/b":       `"a/b"`,
		"payout get":                      "usage: railguard payout get <payout>",
		"payout get not-a-uuid":           `"not-a-uuid"`,
		"payout run":                      "requires at least 1 arg",
		"payout run " + somePayout + " x": `"x"`,
		"payout watch 7":                  `"7"`,
		"payout cancel " + somePayout:     `"reason"`,
		"payout create --account a --amount 1 --currency EUR --beneficiary b":                      `"external-ref"`,
		"payout create --account a --amount 1.005 --currency EUR --beneficiary b --external-ref r": "decimal places",
		"payout create --account a --amount 0 --currency EUR --beneficiary b --external-ref r":     "not above zero",
		"payout create --account a --amount 1 --currency XXX --beneficiary b --external-ref r":     "unknown currency",
		"payout import":                                           "accepts 1 arg",
		"payout import /no/such/file.csv":                         "/no/such/file.csv",
		"account create":                                          "accepts 1 arg",
		"account create a":                                        `"currency"`,
		"account create a/b --currency EUR":                       `"a/b"`,
		"account create a --currency euro":                        "--currency",
		"account create a --currency EUR --opening 1.005":         "--opening",
		"account fund a --amount 1":                               `"external-ref"`,
		"lock get a/b":                                            `"a/b"`,
		"lock revoke k":                                           `"reason"`,
		"lock revoke k --reason because-of-it --expected-token 0": "--expected-token",
		"health":                                             `"url"`,
		"health --url ftp://x":                               "--url",
		"check --profile /no/such/profile":                   "PAYDB_URL is not set",
		"account get a --profile /no/such/p":                 "PAYMENT_RESOURCE_URL is not set",
		"lock get a --profile /no/such/p":                    "LOCK_SERVER_URL is not set",
		"payout run " + somePayout + " --profile /no/such/p": "TEMPORAL_ADDRESS is not set",
		"account get a --payment-resource-url nonsense --token-file /dev/null":               "nonsense",
		"account get a --payment-resource-url " + closedURL + " --token-file /no/such/token": "/no/such/token",
		"migrate":              "LOCKDB_URL must be set",
		"dev --env worker":     "process:NAME=VALUE",
		"dev --env wroker:A=b": `"wroker"`,
		"version extra":        "unknown command",
	} {
		got := run(t, strings.Fields(args)...)
		require.Equal(t, ExitBadInput, got.code, "%s: %s", args, got.err)
		require.Contains(t, got.err, want, args)
		require.Empty(t, got.out, args)
	}
}

func TestHelpTellsEveryExitCode(t *testing.T) {
	t.Parallel()
	got := run(t, "--help")
	require.Equal(t, ExitOK, got.code)
	for code, meaning := range map[int]string{
		ExitOK: "done", ExitFailed: "went wrong", ExitBadInput: "not valid", ExitRefused: "refused",
		ExitUnreachable: "could not be reached", ExitViolated: "invariant",
	} {
		require.Regexp(t, fmt.Sprintf(`(?m)^ +%d .*%s`, code, meaning), got.out)
	}
}

func TestExitCodeOfEveryError(t *testing.T) {
	t.Parallel()
	for _, code := range apierr.Codes() {
		want := ExitRefused
		switch code {
		case apierr.ValidationFailed, apierr.InvalidToken:
			want = ExitBadInput
		case apierr.NotLeader, apierr.RailUnavailable:
			want = ExitUnreachable
		case apierr.Internal:
			want = ExitFailed
		}
		require.Equal(t, want, exitCode(fmt.Errorf("wrapped: %w", apierr.New(code, "x"))), code)
	}
	for err, want := range map[error]int{
		badInput("x"):                    ExitBadInput,
		refused("x"):                     ExitRefused,
		unreachable("x"):                 ExitUnreachable,
		errViolated:                      ExitViolated,
		errors.New("x"):                  ExitFailed,
		context.Canceled:                 ExitFailed,
		serviceerror.NewCanceled("x"):    ExitFailed,
		&httpclient.AnswerError{}:        ExitFailed,
		serviceerror.NewUnavailable("x"): ExitUnreachable,
		&pgconn.ConnectError{}:           ExitUnreachable,
		&httpclient.TransportError{Err: errors.New("x")}:     ExitUnreachable,
		&httpclient.TransportError{Err: context.Canceled}:    ExitFailed,
		errors.Join(errViolated, errors.New("and the rest")): ExitViolated,
	} {
		require.Equal(t, want, exitCode(fmt.Errorf("wrapped: %w", err)), "%T %v", err, err)
	}
	require.Equal(t, ExitOK, exitCode(nil))
}

func TestUnreachableServicesAreNamed(t *testing.T) {
	t.Parallel()
	token := tokenFile(t)
	for _, args := range [][]string{
		{"account", "get", "a", "--payment-resource-url", closedURL, "--token-file", token},
		{"payout", "list", "--payment-resource-url", closedURL, "--token-file", token},
		{"payout", "watch", somePayout, "--payment-resource-url", closedURL, "--token-file", token},
		{"lock", "get", "k", "--lock-server-url", closedURL, "--token-file", token},
		{"health", "--url", closedURL},
	} {
		got := run(t, args...)
		require.Equal(t, ExitUnreachable, got.code, "%v: %s", args, got.err)
		require.Contains(t, got.err, "127.0.0.1:1", args)
	}
}

func saveProfile(t *testing.T, p *profile.Profile) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.json")
	require.NoError(t, p.Save(path))
	return path
}

func TestTheProfilesTokenGoesToTheProfilesServicesAlone(t *testing.T) {
	t.Parallel()
	var bearers []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearers = append(bearers, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"accountId":"a","currency":"EUR"}`))
	}))
	t.Cleanup(service.Close)
	mine := saveProfile(t, &profile.Profile{PaymentResource: service.URL, Tokens: map[string]string{"intake": tokenFile(t)}})
	other := saveProfile(t, &profile.Profile{PaymentResource: closedURL, Tokens: map[string]string{"intake": tokenFile(t)}})

	got := run(t, "account", "get", "a", "--profile", mine)
	require.Equal(t, ExitOK, got.code, got.err)
	got = run(t, "account", "get", "a", "--profile", mine, "--payment-resource-url", service.URL)
	require.Equal(t, ExitOK, got.code, got.err)
	require.Equal(t, []string{"Bearer secret", "Bearer secret"}, bearers)

	got = run(t, "account", "get", "a", "--profile", other, "--payment-resource-url", service.URL)
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "RAILGUARD_TOKEN_FILE")
	require.Len(t, bearers, 2, "a token was sent to a service that it was not made for")
}

func TestARoleThatTheProfileLacksIsNamed(t *testing.T) {
	t.Parallel()
	path := saveProfile(t, &profile.Profile{LockServer: closedURL, Tokens: map[string]string{"reader": tokenFile(t)}})
	got := run(t, "lock", "revoke", "k", "--reason", "long enough", "--profile", path)
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "role operator")
}

func TestRefusalsAndFaultsOfAServiceHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[apierr.Code]int{
		apierr.PayoutNotClaimable: ExitRefused, apierr.Forbidden: ExitRefused, apierr.NotFound: ExitRefused,
		apierr.ValidationFailed: ExitBadInput, apierr.Internal: ExitFailed,
	} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			row, _ := apierr.Lookup(code)
			w.WriteHeader(row.Status)
			_ = json.NewEncoder(w).Encode(apierr.New(code, "because").With("fields", map[string]string{"one": "wrong", "two": "too"}))
		}))
		t.Cleanup(service.Close)
		got := run(t, "payout", "get", somePayout, "--payment-resource-url", service.URL, "--token-file", tokenFile(t))
		require.Equal(t, want, got.code, code)
		require.Contains(t, got.err, string(code)+": because")
		require.Contains(t, got.err, "\n  two: too")
	}
}

func TestInterruptionIsNoSuccess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(service.Close)
	got := runWith(ctx, "", "payout", "watch", somePayout, "--payment-resource-url", service.URL, "--token-file", tokenFile(t))
	require.Equal(t, ExitFailed, got.code)
	require.Contains(t, got.err, "interrupted")
}

func TestTemporalsOwnErrorsAreSaidInOurWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, "interrupted", describe(fmt.Errorf("payout 1: %w", serviceerror.NewCanceled("context canceled"))))
	for _, late := range []error{context.DeadlineExceeded, serviceerror.NewDeadlineExceeded("context deadline exceeded")} {
		require.ErrorContains(t, explain(late), "the payout goes on by itself")
	}
	require.ErrorContains(t, explain(serviceerror.NewInvalidArgument("Namespace default has no mapping defined for search attribute PayoutId")),
		"no worker has run there yet")
}

func TestTheProfileOfASystemThatStillRunsComesBack(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(service.Close)
	path := filepath.Join(t.TempDir(), "p.json")
	here := func() string {
		p, err := profile.LoadFile(path)
		if errors.Is(err, profile.ErrNone) {
			return "nobody"
		}
		require.NoError(t, err)
		return p.PaydbURL
	}
	first := &profile.Profile{PaydbURL: "first", PaymentResource: service.URL}
	gone := &profile.Profile{PaydbURL: "gone", PaymentResource: closedURL}
	mine, newer := &profile.Profile{PaydbURL: "mine"}, &profile.Profile{PaydbURL: "newer"}
	for _, c := range []struct {
		there, before *profile.Profile
		want          string
	}{
		{mine, first, "first"}, {mine, gone, "nobody"}, {mine, nil, "nobody"}, {newer, first, "newer"},
	} {
		require.NoError(t, c.there.Save(path))
		require.NoError(t, giveBack(path, mine, c.before))
		require.Equal(t, c.want, here())
	}
}

func TestHealthAsksReadyz(t *testing.T) {
	t.Parallel()
	ready := true
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/readyz", r.URL.Path)
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"DOWN","reason":"paydb"}`))
			return
		}
		_, _ = w.Write([]byte(`{"status":"UP"}`))
	}))
	t.Cleanup(service.Close)
	got := run(t, "health", "--url", service.URL)
	require.Equal(t, result{ExitOK, "{\"status\":\"UP\"}\n", ""}, got)
	ready = false
	got = run(t, "health", "--url", service.URL+"/readyz")
	require.Equal(t, ExitFailed, got.code)
	require.Contains(t, got.err, `"reason":"paydb"`)
}

func TestVersionInBothForms(t *testing.T) {
	t.Parallel()
	got := run(t, "version")
	require.Equal(t, ExitOK, got.code)
	require.True(t, strings.HasPrefix(got.out, "railguard "), got.out)
	got = run(t, "version", "--output", "json")
	var b build
	require.NoError(t, json.Unmarshal([]byte(got.out), &b))
	require.NotEmpty(t, b.Version)
}

func TestTheDocumentNamesEveryCommandAndExitCode(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	require.NoError(t, err)
	document := string(data)
	for line := range strings.Lines(exitCodesHelp) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
		require.Contains(t, document, fmt.Sprintf("| %s | %s |", code, meaning))
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.HasSubCommands() && c.IsAvailableCommand() {
			require.Regexp(t, `(?m)^(### |\| .)`+c.CommandPath()+`\b`, document)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}
