package activities

import (
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"railguard/services/apierr"
	"railguard/services/httpclient"
	"railguard/services/paymentapi"
)

// decision is what a step makes of an error code that it got.
type decision int

const (
	asValue  decision = iota + 1 // a business answer: a value in the result of the step that expects it
	askAgain                     // an error that the step's retry policy acts on
	giveUp                       // an error that is never retried
)

// decisions is the one table from error code to retry decision. A business answer that reaches a step
// which does not expect it is given up like a giveUp.
var decisions = map[apierr.Code]decision{
	apierr.LockContended:       asValue,
	apierr.LockLost:            asValue,
	apierr.SessionUnknown:      asValue,
	apierr.SessionExpired:      asValue,
	apierr.FencedOut:           asValue,
	apierr.PayoutNotClaimable:  asValue,
	apierr.DuplicateSubmission: asValue,
	apierr.InsufficientFunds:   asValue,
	apierr.Rejected:            asValue,
	apierr.RailUnavailable:     asValue,
	apierr.RailAmbiguous:       asValue,
	apierr.ContentionExceeded:  askAgain,
	apierr.NotLeader:           askAgain,
	apierr.Internal:            askAgain,
	apierr.InvalidToken:        giveUp,
	apierr.IdempotencyConflict: giveUp,
	apierr.ValidationFailed:    giveUp,
	apierr.Unauthenticated:     giveUp,
	apierr.Forbidden:           giveUp,
	apierr.NotFound:            giveUp,
}

// The types of the application errors that carry no error code of a service.
const (
	ErrorNoAnswer  = "NoAnswer"  // no usable answer arrived: what the service did is unknown
	ErrorBadAnswer = "BadAnswer" // an answer arrived that the service did not write in the agreed form
)

// failure turns the error of a client into the one that Temporal sees. Its type is the error code, so
// that the workflow matches it by type and never by text.
func failure(err error) error {
	message := bounded(err.Error())
	var refused *apierr.Error
	if errors.As(err, &refused) {
		if decisions[refused.Code] != askAgain {
			return temporal.NewNonRetryableApplicationError(message, string(refused.Code), nil)
		}
		return temporal.NewApplicationErrorWithOptions(message, string(refused.Code), temporal.ApplicationErrorOptions{
			NextRetryDelay: time.Duration(refused.RetryAfterMillis) * time.Millisecond,
		})
	}
	var answer *httpclient.AnswerError
	if errors.As(err, &answer) {
		if answer.Status >= 400 && answer.Status < 500 && answer.Status != http.StatusTooManyRequests {
			return temporal.NewNonRetryableApplicationError(message, ErrorBadAnswer, nil)
		}
		return temporal.NewApplicationError(message, ErrorBadAnswer)
	}
	return temporal.NewApplicationError(message, ErrorNoAnswer)
}

// WriteOutcome is a guard's answer to a fenced write.
type WriteOutcome string

// The answers of a guard.
const (
	Accepted          WriteOutcome = "accepted"
	FencedOut         WriteOutcome = "fencedOut"         // a newer token was seen: this run is over
	NotClaimable      WriteOutcome = "notClaimable"      // the payout's state, or its claim, does not allow it
	InsufficientFunds WriteOutcome = "insufficientFunds" // the claim found too little; the payout is FAILED
)

// otherAnswer is the error of an answer that is well formed and is not about what was asked: whoever wrote it,
// it says nothing about what happened.
func otherAnswer(step, payoutID string) error {
	return temporal.NewApplicationError(step+" of payout "+payoutID+" was answered with something else", ErrorBadAnswer)
}

// refusal is the answer that stands in the result of a fenced write: what, why, and the payout's state
// where the guard told it.
type refusal struct {
	outcome WriteOutcome
	state   paymentapi.PayoutState
	reason  string
}

// refusedBy reads a guard's refusal from the error of a fenced write; false when it is none.
func refusedBy(err error) (refusal, bool) {
	var refused *apierr.Error
	if !errors.As(err, &refused) {
		return refusal{}, false
	}
	outcome, ok := map[apierr.Code]WriteOutcome{
		apierr.FencedOut:          FencedOut,
		apierr.PayoutNotClaimable: NotClaimable,
	}[refused.Code]
	state := paymentapi.PayoutState(detail(refused, "state"))
	return refusal{outcome: outcome, state: state, reason: bounded(refused.Message)}, ok
}

// detail reads a detail that is a string; "" when there is none.
func detail(e *apierr.Error, name string) string {
	s, _ := e.Details[name].(string)
	return bounded(s)
}

// submissionID lets through what can be the id of a submission; "" for anything else, because a record
// is refused for a malformed id and not for an absent one.
func submissionID(s string) string {
	if id, err := uuid.Parse(s); err != nil || id.String() != s {
		return ""
	}
	return s
}

// maxText bounds every text that comes from another process, in bytes: a result of some MiB never
// reaches the server, and the step would look as if it had never answered.
const maxText = 300

// bounded cuts a text and takes the control characters out of it, which the guards refuse in a reason.
func bounded(s string) string {
	if len(s) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
