package railproxy

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/railapi"
)

func TestAnAcknowledgedSubmissionIsRecordedAndAnswered(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	s := newSubmission(7)

	a := p.submit(s)
	requireAcked(t, a)
	var got railapi.Submission
	require.NoError(t, json.Unmarshal(a.body, &got))
	require.Equal(t, railapi.Acked, got.Outcome)
	require.Equal(t, "RAIL-1", got.RailReference)
	require.Equal(t, s.Payout, got.PayoutID)
	require.EqualValues(t, 7, got.PresentedToken)
	require.NotNil(t, got.ResolvedAt)

	require.Equal(t, []row{{Payout: s.Payout, Account: "acc-1", Outcome: "ACKED", Reference: "RAIL-1", Token: 7, Guarded: true}}, db.rows(t))
	require.EqualValues(t, 7, db.mark(t, "acc-1"))
	require.EqualValues(t, 1, p.submissions("acked"))

	require.Equal(t, 1, rail.count())
	req, body := rail.request(1)
	require.Equal(t, http.MethodPost, req.Method)
	require.Equal(t, "/submit", req.URL.Path)
	require.True(t, req.Close, "the rail is asked to close the connection")
	require.JSONEq(t, `{"clientRef":"`+s.Payout+`","amountMinor":100,"currency":"EUR"}`, body)
	for _, header := range []string{"X-Idempotency-Key", "Idempotency-Key", "X-Fencing-Token", "X-Owner-Id", "Authorization"} {
		require.Empty(t, req.Header.Get(header), header)
	}
}
