package apierr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
)

// One code, one status, one retry decision: this is the table of the contract, written a second time on purpose.
func TestTableIsTheContract(t *testing.T) {
	contract := map[string]struct {
		status int
		retry  bool
	}{
		"LOCK_CONTENDED": {409, true}, "CONTENTION_EXCEEDED": {429, true}, "NOT_LEADER": {503, true}, "LOCK_LOST": {409, false},
		"SESSION_UNKNOWN": {404, false}, "SESSION_EXPIRED": {410, false}, "INVALID_TOKEN": {400, false}, "FENCED_OUT": {409, false},
		"PAYOUT_NOT_CLAIMABLE": {409, false}, "DUPLICATE_SUBMISSION": {409, false}, "INSUFFICIENT_FUNDS": {422, false},
		"IDEMPOTENCY_CONFLICT": {422, false}, "REJECTED": {422, false}, "RAIL_UNAVAILABLE": {503, true}, "RAIL_AMBIGUOUS": {409, false},
		"VALIDATION_FAILED": {400, false}, "UNAUTHENTICATED": {401, false}, "FORBIDDEN": {403, false}, "NOT_FOUND": {404, false}, "INTERNAL": {500, false},
	}
	require.Len(t, apierr.Codes(), len(contract))
	for code, want := range contract {
		row, ok := apierr.Lookup(apierr.Code(code))
		require.True(t, ok, code)
		require.Equal(t, want.status, row.Status, code)
		require.Equal(t, want.retry, row.RetrySafe, code)
	}
	_, ok := apierr.Lookup("NO_SUCH_CODE")
	require.False(t, ok)
	require.Panics(t, func() { _ = apierr.New("NO_SUCH_CODE", "x") })
}

func TestEnvelope(t *testing.T) {
	base := apierr.New(apierr.ContentionExceeded, "%d wait", 64)
	full := base.With("a", 1).With("b", 2).RetryAfter(1500 * time.Millisecond)
	require.Nil(t, base.Details, "With copies")
	data, err := json.Marshal(full)
	require.NoError(t, err)
	require.JSONEq(t, `{"code":"CONTENTION_EXCEEDED","message":"64 wait","retrySafe":true,"retryAfterMillis":1500,"details":{"a":1,"b":2},"traceId":""}`, string(data))
	require.Equal(t, apierr.ContentionExceeded, apierr.CodeOf(fmt.Errorf("wrapped: %w", full)))
	require.Empty(t, apierr.CodeOf(errors.New("plain")))
	require.Empty(t, apierr.CodeOf(nil))
	require.Equal(t, "VALIDATION_FAILED: amount: must be above 0", apierr.Field("amount", "must be above %d", 0).Error())
}
