package workflows

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"railguard/activities"
)

const payoutID = "0198a1b2-0000-7000-8000-000000000001"

func rawJSON(data string) converter.RawValue {
	return converter.NewRawValue(&commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: []byte(data),
	})
}

func TestTheInputIsDecodedStrictly(t *testing.T) {
	for name, c := range map[string]struct {
		raw  converter.RawValue
		says string
	}{
		"missing":          {converter.RawValue{}, "missing"},
		"binary":           {converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/plain")}}), `encoding "binary/plain"`},
		"nil":              {converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/null")}}), `encoding "binary/null"`},
		"null":             {rawJSON("null"), "want a JSON object"},
		"empty":            {rawJSON(""), "empty"},
		"a string":         {rawJSON(`"` + payoutID + `"`), "want a JSON object"},
		"an array":         {rawJSON(`["` + payoutID + `"]`), "want a JSON object"},
		"no payout":        {rawJSON(`{}`), "payoutId: missing"},
		"null payout":      {rawJSON(`{"payoutId":null}`), "payoutId: missing"},
		"a number":         {rawJSON(`{"payoutId":7}`), `"payoutId"`},
		"not a UUID":       {rawJSON(`{"payoutId":"p-1"}`), `payoutId: "p-1" is not a UUID`},
		"upper case":       {rawJSON(`{"payoutId":"` + strings.ToUpper(payoutID) + `"}`), "canonical lower-case"},
		"braced":           {rawJSON(`{"payoutId":"{` + payoutID + `}"}`), "canonical lower-case"},
		"unknown field":    {rawJSON(`{"payoutId":"` + payoutID + `","force":true}`), `"force"`},
		"twice":            {rawJSON(`{"payoutId":"` + payoutID + `","PayoutId":"` + payoutID + `"}`), "duplicate"},
		"trailing":         {rawJSON(`{"payoutId":"` + payoutID + `"} {}`), "trailing"},
		"truncated":        {rawJSON(`{"payoutId":"` + payoutID), "truncated"},
		"account with /":   {rawJSON(`{"payoutId":"` + payoutID + `","accountId":"a/b"}`), `accountId: "a/b"`},
		"account with :":   {rawJSON(`{"payoutId":"` + payoutID + `","accountId":"a:b"}`), `accountId: "a:b"`},
		"account too long": {rawJSON(`{"payoutId":"` + payoutID + `","accountId":"` + strings.Repeat("a", 65) + `"}`), "accountId"},
		"a huge field":     {rawJSON(`{"payoutId":"` + payoutID + `","` + strings.Repeat("a", 100_000) + `":1}`), "unknown field"},
		"a huge id":        {rawJSON(`{"payoutId":"` + strings.Repeat("a", 100_000) + `"}`), "payoutId"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeInput(c.raw)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, ErrorBadInput, refused.Type())
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Message(), c.says)
			require.Less(t, len(refused.Message()), 400)
		})
	}
}

func TestTheInputsThatAreTaken(t *testing.T) {
	for raw, want := range map[string]PayoutInput{
		`{"payoutId":"` + payoutID + `"}`:                                                      {PayoutID: payoutID},
		`{"payoutId":"` + payoutID + `","accountId":""}`:                                       {PayoutID: payoutID},
		`{"payoutId":"` + payoutID + `","accountId":"Acc_1.x-9"}`:                              {PayoutID: payoutID, AccountID: "Acc_1.x-9"},
		`{"accountId":"` + strings.Repeat("a", 64) + `","payoutId":"` + payoutID + `"}` + "\n": {PayoutID: payoutID, AccountID: strings.Repeat("a", 64)},
	} {
		got, err := decodeInput(rawJSON(raw))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestWhatEndsARunForGood(t *testing.T) {
	refused := permanent(temporal.NewNonRetryableApplicationError("of another account", "VALIDATION_FAILED", nil))
	var application *temporal.ApplicationError
	require.ErrorAs(t, refused, &application)
	require.Equal(t, "VALIDATION_FAILED", application.Type())
	require.Equal(t, "of another account", application.Message())
	require.NoError(t, permanent(temporal.NewApplicationError("reset", activities.ErrorNoAnswer)))
	require.NoError(t, permanent(temporal.NewNonRetryableApplicationError("a load balancer's 404", activities.ErrorBadAnswer, nil)))
	require.NoError(t, permanent(errors.New("anything else")))
}

func TestWhatIsWrongWithTheInputAlthoughItIsWellFormed(t *testing.T) {
	for code, kind := range map[string]string{"NOT_FOUND": ErrorBadInput, "VALIDATION_FAILED": ErrorBadInput, "FORBIDDEN": "FORBIDDEN"} {
		var refused *temporal.ApplicationError
		require.ErrorAs(t, permanent(aboutInput(temporal.NewNonRetryableApplicationError("why", code, nil))), &refused)
		require.Equal(t, kind, refused.Type())
		require.Contains(t, refused.Message(), "why")
	}
	unanswered := temporal.NewApplicationError("reset", activities.ErrorNoAnswer)
	require.Equal(t, unanswered, aboutInput(unanswered))
}
