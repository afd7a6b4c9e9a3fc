package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot work is refused before anything is started, by the name of the flag.
func TestBadFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                                "--fencing is missing: want off, rail-only, account-only or on",
		"--fencing both":                                  `--fencing "both": want off, rail-only, account-only or on`,
		"--fencing on --pause docker":                     `--pause "docker": want stop or none`,
		"--fencing on --stack compose":                    `--stack "compose": want local or running`,
		"--fencing on --repeat 0":                         "--repeat 0: want 1 to 1000",
		"--fencing on --parallel 65":                      "--parallel 65: want 1 to 64",
		"--fencing on --attempts 0":                       "--attempts 0: want 1 to 20",
		"--fencing on --lease-ttl 61s":                    "--lease-ttl 1m1s: a worker takes 1s to 1m",
		"--fencing on --lease-ttl 2s":                     "--lease-ttl 2s must exceed --submit-budget and the safety margin of 30%, 2.6s together",
		"--fencing on --submit-budget 1s":                 "--submit-budget 1s must exceed --rail-timeout 1s",
		"--fencing on --stack running --submit-budget 0s": "--submit-budget 0s: want more than 0",
		"--fencing on --rail-timeout 0s":                  "--rail-timeout 0s: want more than 0",
		"--fencing on --work 5s":                          "--work 5s must exceed --lease-ttl 5s",
		"--fencing on --work 11m":                         "--work 11m0s: want at most 10m",
		"--fencing on --pause-offset 0s":                  "--pause-offset 0s: want more than 0",
		"--fencing on --pause-offset 17s":                 "--pause-offset 17s, varied by a fifth, must stay below --work 20s",
		"--fencing on --short --work 2s":                  "--work 2s must exceed --lease-ttl 3s",
		"--fencing on --profile p.json":                   "--profile names a running stack: it needs --stack running",
		"--fencing on --stack running --profile " + filepath.Join("no", "such"): "--stack running: no running stack was found",
		"--fencing on --stack running --rail-timeout 1s":                        "--rail-timeout is for a stack of our own",
		"--fencing on --stack running --keep":                                   "--keep is for a stack of our own",
		"--fencing on --repeat many":                                            `invalid argument "many" for "--repeat" flag`,
		"--fencing on --seed -1":                                                `invalid argument "-1" for "--seed" flag`,
		"--fencing on --freeze":                                                 "unknown flag: --freeze",
		"--fencing on off":                                                      `unexpected argument "off"`,
		"--fencing on --binary " + filepath.Join("no", "such"):                  "no such file or directory (make build makes it)",
	} {
		var out, progress bytes.Buffer
		captures := t.TempDir()
		given := append(strings.Fields(args), "--out", captures)
		if !strings.Contains(args, "--binary") {
			given = append(given, "--binary", os.Args[0])
		}
		require.Equal(t, exitUsage, run(t.Context(), options{}, given, &out, &progress), "%q: %s", args, &progress)
		require.Contains(t, progress.String(), want)
		left, err := os.ReadDir(captures)
		require.NoError(t, err)
		require.Empty(t, left, "%q left something behind", args)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	require.Equal(t, exitShown, run(t.Context(), options{}, []string{"--help"}, &out, &progress))
	require.Contains(t, out.String(), "--fencing")
	require.NotContains(t, out.String(), "completion")
}

// Nothing is hard-coded: ids and tokens come from the system, and the script starts the experiment and nothing else.
func TestTheScriptKnowsNoIDAndNoToken(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("..", "fencing-demo.sh"))
	require.NoError(t, err)
	code := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(string(script), "")
	require.NotRegexp(t, `[0-9a-f]{8}-[0-9a-f]{4}`, code)
	require.NotRegexp(t, `(?i)token|payout|account`, code)
	require.NotRegexp(t, `\b[2-9][0-9]*\b`, strings.ReplaceAll(code, ">&2", ""))
}
