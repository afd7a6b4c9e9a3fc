package railproxy

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/telemetry"
)

func TestLoadConfigHasTheDocumentedDefaults(t *testing.T) {
	t.Setenv("PAYDB_URL", "postgres://railapp@127.0.0.1/pay")
	t.Setenv("RAIL_URL", "http://127.0.0.1:8090")
	c, err := LoadConfig()
	require.NoError(t, err)
	require.Equal(t, Config{ListenAddr: "127.0.0.1:8083", DatabaseURL: "postgres://railapp@127.0.0.1/pay", DBPool: 16,
		RailURL: "http://127.0.0.1:8090", RailTimeout: 8 * time.Second, FencingEnabled: true}, c)
}

func TestLoadConfigNamesTheVariableThatIsWrong(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"PAYDB_URL", ""},
		{"RAIL_URL", ""},
		{"RAIL_URL", "127.0.0.1:8090"},
		{"RAIL_URL", "ftp://127.0.0.1"},
		{"RAIL_URL", "http://user:secret@127.0.0.1"},
		{"RAIL_URL", "http://127.0.0.1/?a=b"},
		{"RAIL_TIMEOUT", "0s"},
		{"RAIL_TIMEOUT", "-1s"},
		{"RAIL_TIMEOUT", "10m"},
		{"RAIL_TIMEOUT", "8"},
		{"RAIL_DB_POOL", "0"},
		{"RAIL_DB_POOL", "x"},
		{"RAIL_PROXY_FENCING_ENABLED", "maybe"},
		{"RAIL_PROXY_FENCING", "true"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv("PAYDB_URL", "postgres://railapp@127.0.0.1/pay")
			t.Setenv("RAIL_URL", "http://127.0.0.1:8090")
			t.Setenv(c.name, c.value)
			_, err := LoadConfig()
			require.ErrorContains(t, err, c.name)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestAReachableAddressNeedsATokensFile(t *testing.T) {
	t.Parallel()
	_, err := newServer(t.Context(), Config{ListenAddr: "0.0.0.0:0", DatabaseURL: "postgres://railapp@127.0.0.1/pay", DBPool: 1,
		RailURL: "http://127.0.0.1:1", RailTimeout: time.Second}, telemetry.NewLogger(io.Discard, "rail-proxy"))
	require.ErrorContains(t, err, "AUTH_TOKENS_FILE")
}
