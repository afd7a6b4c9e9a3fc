package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"railguard/deploy/local/profile"
)

// The tests of this file that set variables are not parallel.

func TestVariablesOutrankTheProfileAndFlagsOutrankThem(t *testing.T) {
	var asked []string
	named := func(name string) string {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, name+" "+r.Header.Get("Authorization"))
			_, _ = w.Write([]byte(`{"accountId":"a","currency":"EUR"}`))
		}))
		t.Cleanup(service.Close)
		return service.URL
	}
	flagged, byVariable, inProfile := named("flag"), named("variable"), named("profile")
	t.Setenv(profile.Variable, saveProfile(t, &profile.Profile{PaymentResource: inProfile, Tokens: map[string]string{"reader": tokenFile(t)}}))
	require.Equal(t, ExitOK, run(t, "account", "get", "a").code)
	t.Setenv("RAILGUARD_TOKEN_FILE", tokenFile(t))
	t.Setenv("PAYMENT_RESOURCE_URL", byVariable)
	require.Equal(t, ExitOK, run(t, "account", "get", "a").code)
	require.Equal(t, ExitOK, run(t, "account", "get", "a", "--payment-resource-url", flagged).code)
	require.Equal(t, []string{"profile Bearer secret", "variable Bearer secret", "flag Bearer secret"}, asked)

	t.Setenv("PAYMENT_RESOURCE_URI", byVariable)
	got := run(t, "account", "get", "a")
	require.Equal(t, ExitBadInput, got.code)
	require.Contains(t, got.err, "PAYMENT_RESOURCE_URI")
}

func TestAnUnreachableTemporalIsNamed(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
	got := run(t, "payout", "run", somePayout)
	require.Equal(t, ExitUnreachable, got.code, got.err)
	require.Contains(t, got.err, "Temporal at 127.0.0.1:1")
	require.Empty(t, got.out)
}

func TestProgressIsDrawnOnATerminalAlone(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.Nil(t, progress(file, "importing"))
	require.NoError(t, file.Close())

	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, master.Close()) })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, terminal.Close()) })
	show := progress(terminal, "importing")
	require.NotNil(t, show)
	show(1, 4)
	drawn := make([]byte, 4096)
	n, err := master.Read(drawn)
	require.NoError(t, err)
	require.Contains(t, string(drawn[:n]), "importing")
}
