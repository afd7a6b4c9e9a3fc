package cli

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/lockserver"
	"railguard/services/paymentresource"
	"railguard/services/railproxy"
	"railguard/services/railstub"
	"railguard/services/settings"
	"railguard/workers"
)

// One environment may be shared by all processes, so none may take another's variable for a typing error.
func TestEveryProcessKnowsTheVariablesOfTheOthers(t *testing.T) {
	for _, config := range []any{lockserver.Config{}, paymentresource.Config{}, railproxy.Config{}, railstub.Config{}, workers.Config{}} {
		kind := reflect.TypeOf(config)
		for i := range kind.NumField() {
			name := kind.Field(i).Tag.Get("envconfig")
			require.NotEmpty(t, name, "%s.%s", kind, kind.Field(i).Name)
			t.Setenv(name, "x")
		}
	}
	require.NoError(t, settings.Load(&struct{}{}))
	// One that nothing reads is refused, however plausible.
	t.Setenv("SWEEP_LIMIT", "5")
	require.ErrorContains(t, settings.Load(&struct{}{}), "SWEEP_LIMIT")
	t.Setenv("RAIL_TIMEOTU", "8s")
	require.ErrorContains(t, settings.Load(&struct{}{}), "RAIL_TIMEOTU")
}
