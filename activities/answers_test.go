package activities

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"railguard/services/apierr"
	"railguard/services/httpclient"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
)

// want is the table once more, written down from the contract and not from the code.
var want = map[apierr.Code]struct {
	decision decision
	submit   SubmitOutcome
}{
	apierr.LockContended:       {asValue, Ambiguous},
	apierr.ContentionExceeded:  {askAgain, Ambiguous},
	apierr.NotLeader:           {askAgain, Ambiguous},
	apierr.LockLost:            {asValue, Ambiguous},
	apierr.SessionUnknown:      {asValue, Ambiguous},
	apierr.SessionExpired:      {asValue, Ambiguous},
	apierr.InvalidToken:        {giveUp, Unavailable},
	apierr.FencedOut:           {asValue, SubmitFencedOut},
	apierr.PayoutNotClaimable:  {asValue, Ambiguous},
	apierr.DuplicateSubmission: {asValue, Duplicate},
	apierr.InsufficientFunds:   {asValue, Ambiguous},
	apierr.IdempotencyConflict: {giveUp, Unavailable},
	apierr.Rejected:            {asValue, Rejected},
	apierr.RailUnavailable:     {asValue, Unavailable},
	apierr.RailAmbiguous:       {asValue, Ambiguous},
	apierr.ValidationFailed:    {giveUp, Unavailable},
	apierr.Unauthenticated:     {giveUp, Unavailable},
	apierr.Forbidden:           {giveUp, Unavailable},
	apierr.NotFound:            {giveUp, Ambiguous},
	apierr.Internal:            {askAgain, Ambiguous},
}

func TestEveryCodeHasItsDecision(t *testing.T) {
	for _, code := range apierr.Codes() {
		t.Run(string(code), func(t *testing.T) {
			expected, ok := want[code]
			require.True(t, ok, "a new code needs a decision")
			require.Equal(t, expected.decision, decisions[code])

			row, _ := apierr.Lookup(code)
			require.Equal(t, row.Business, decisions[code] == asValue, "a business answer is a value, and nothing else is")
			if !row.Business {
				repeatable := row.Status == 429 || row.Status >= 500
				require.Equal(t, repeatable, decisions[code] == askAgain, "429 and 5xx are asked again, no other 4xx is")
			}

			var refused *temporal.ApplicationError
			require.ErrorAs(t, failure(apierr.New(code, "m")), &refused)
			require.Equal(t, string(code), refused.Type())
			require.Equal(t, expected.decision != askAgain, refused.NonRetryable())

			require.Equal(t, expected.submit, submitFailure(apierr.New(code, "m")).Outcome)
		})
	}
	require.Len(t, want, len(apierr.Codes()))
	require.Len(t, decisions, len(apierr.Codes()))
}

func TestFailuresWithoutACode(t *testing.T) {
	for name, c := range map[string]struct {
		err          error
		kind         string
		nonRetryable bool
		submit       SubmitOutcome
	}{
		"no answer":                {&httpclient.TransportError{Err: errors.New("reset")}, ErrorNoAnswer, false, Ambiguous},
		"nothing written":          {&httpclient.TransportError{NothingWritten: true, Err: errors.New("refused")}, ErrorNoAnswer, false, Unavailable},
		"another's 502":            {&httpclient.AnswerError{Status: 502}, ErrorBadAnswer, false, Ambiguous},
		"another's 429":            {&httpclient.AnswerError{Status: 429}, ErrorBadAnswer, false, Ambiguous},
		"another's 404":            {&httpclient.AnswerError{Status: 404}, ErrorBadAnswer, true, Ambiguous},
		"a success that is no use": {&httpclient.AnswerError{Status: 200}, ErrorBadAnswer, false, Ambiguous},
		"anything else":            {errors.New("?"), ErrorNoAnswer, false, Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			var got *temporal.ApplicationError
			require.ErrorAs(t, failure(c.err), &got)
			require.Equal(t, c.kind, got.Type())
			require.Equal(t, c.nonRetryable, got.NonRetryable())
			require.Equal(t, c.submit, submitFailure(c.err).Outcome)
		})
	}
}

func TestTheServersWaitReachesTheRetryPolicy(t *testing.T) {
	var got *temporal.ApplicationError
	require.ErrorAs(t, failure(apierr.New(apierr.ContentionExceeded, "m").RetryAfter(3*time.Second)), &got)
	require.Equal(t, 3*time.Second, got.NextRetryDelay())
}

func TestARefusalTellsTheStateWhereTheGuardDid(t *testing.T) {
	r, ok := refusedBy(apierr.New(apierr.PayoutNotClaimable, "m").With("state", "RAIL_AMBIGUOUS"))
	require.True(t, ok)
	require.Equal(t, refusal{NotClaimable, paymentapi.RailAmbiguous, "m"}, r)
	r, ok = refusedBy(apierr.New(apierr.FencedOut, "m"))
	require.True(t, ok)
	require.Equal(t, refusal{FencedOut, "", "m"}, r)
	_, ok = refusedBy(apierr.New(apierr.Rejected, "m"))
	require.False(t, ok)
	_, ok = refusedBy(errors.New("reset"))
	require.False(t, ok)
}

func TestWhatOthersSayIsBounded(t *testing.T) {
	require.Equal(t, "short", bounded("short"))
	cut := bounded(strings.Repeat("é", 1<<20))
	require.LessOrEqual(t, len(cut), maxText+len("…"))
	require.True(t, utf8.ValidString(cut))
	require.Equal(t, "two lines?", bounded("two\nlines\xff"), "a guard refuses a reason with control characters")
	result := submitFailure(apierr.New(apierr.RailAmbiguous, "%s", strings.Repeat("x", 1<<20)).With("submissionId", strings.Repeat("y", 1<<20)))
	require.Less(t, len(result.Reason)+len(result.SubmissionID), 1000)
}

func TestTheRecordThatDecides(t *testing.T) {
	at := time.Now()
	record := func(outcome railapi.Outcome, reference string) railapi.Submission {
		return railapi.Submission{SubmissionID: uuid.NewString(), Outcome: outcome, RailReference: reference, ResolvedAt: &at}
	}
	acked := record(railapi.Acked, "ref")
	for name, c := range map[string]struct {
		records []railapi.Submission
		outcome LookupOutcome
	}{
		"none":                                  {nil, NothingPresented},
		"only refused by the guard":             {[]railapi.Submission{record(railapi.Fenced, ""), record(railapi.Unsent, "")}, NothingPresented},
		"acknowledged":                          {[]railapi.Submission{record(railapi.Fenced, ""), acked}, FoundAcked},
		"declined":                              {[]railapi.Submission{record(railapi.Rejected, "")}, FoundRejected},
		"timed out":                             {[]railapi.Submission{record(railapi.Timeout, "")}, FoundUnknown},
		"no outcome yet":                        {[]railapi.Submission{record("", "")}, FoundUnknown},
		"an outcome of a later version":         {[]railapi.Submission{record("PARTLY", "")}, FoundUnknown},
		"acknowledged without a reference":      {[]railapi.Submission{record(railapi.Acked, "")}, FoundUnknown},
		"with a reference that cannot be right": {[]railapi.Submission{record(railapi.Acked, strings.Repeat("x", maxReference+1))}, FoundUnknown},
		"guard off: the doubt outweighs the no": {[]railapi.Submission{record(railapi.Rejected, ""), record(railapi.Timeout, "")}, FoundUnknown},
		"guard off: the yes outweighs all":      {[]railapi.Submission{record(railapi.Timeout, ""), acked, record(railapi.Rejected, "")}, FoundAcked},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(c.records)
			require.Equal(t, c.outcome, got.Outcome)
			if c.outcome == FoundAcked {
				require.Equal(t, "ref", got.RailReference)
				require.Equal(t, acked.SubmissionID, got.SubmissionID)
			} else {
				require.Empty(t, got.RailReference)
			}
		})
	}
}

func TestAMalformedSubmissionIDIsNoneAtAll(t *testing.T) {
	good := uuid.NewString()
	require.Equal(t, good, submitFailure(apierr.New(apierr.RailAmbiguous, "m").With("submissionId", good)).SubmissionID)
	require.Empty(t, submitFailure(apierr.New(apierr.RailAmbiguous, "m").With("submissionId", "s-1")).SubmissionID)
	require.Empty(t, submitFailure(apierr.New(apierr.RailAmbiguous, "m").With("submissionId", 7)).SubmissionID)
}
