package fencing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/fencing"
)

func TestParseAcceptsOnlyPlainDecimalsAboveZero(t *testing.T) {
	for text, want := range map[string]fencing.Token{"1": 1, "42": 42, "9223372036854775807": 1<<63 - 1} {
		got, err := fencing.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
		require.True(t, got.Valid())
	}
	for _, text := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "0x1", "1_000", "9223372036854775808", "99999999999999999999", "abc", "١"} {
		got, err := fencing.Parse(text)
		require.ErrorIs(t, err, fencing.ErrInvalidToken, "%q", text)
		require.False(t, got.Valid(), "%q", text)
	}
}
