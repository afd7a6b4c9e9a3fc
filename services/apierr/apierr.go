// Package apierr is the one table of error codes: how each crosses HTTP and whether asking again may help.
// Callers branch on the code, never on the status and never on the message.
package apierr

import (
	"errors"
	"fmt"
	"time"
)

// Code names one kind of refusal or failure. Codes are added, never renamed.
type Code string

// The codes; Table says what each means to a caller.
const (
	LockContended       Code = "LOCK_CONTENDED"
	ContentionExceeded  Code = "CONTENTION_EXCEEDED"
	NotLeader           Code = "NOT_LEADER"
	LockLost            Code = "LOCK_LOST"
	SessionUnknown      Code = "SESSION_UNKNOWN"
	SessionExpired      Code = "SESSION_EXPIRED"
	InvalidToken        Code = "INVALID_TOKEN"
	FencedOut           Code = "FENCED_OUT"
	PayoutNotClaimable  Code = "PAYOUT_NOT_CLAIMABLE"
	DuplicateSubmission Code = "DUPLICATE_SUBMISSION"
	InsufficientFunds   Code = "INSUFFICIENT_FUNDS"
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"
	Rejected            Code = "REJECTED"
	RailUnavailable     Code = "RAIL_UNAVAILABLE"
	RailAmbiguous       Code = "RAIL_AMBIGUOUS"
	ValidationFailed    Code = "VALIDATION_FAILED"
	Unauthenticated     Code = "UNAUTHENTICATED"
	Forbidden           Code = "FORBIDDEN"
	NotFound            Code = "NOT_FOUND"
	Internal            Code = "INTERNAL"
)

// Row is what one code means: the HTTP status it travels with, whether the same request may be sent
// again, and whether it is a business answer. A business answer is final for the request that got it:
// an activity returns it as a value, never as an error that a retry policy could act on.
type Row struct {
	Status    int
	RetrySafe bool
	Business  bool
}

var table = map[Code]Row{
	LockContended:       {409, true, true},
	ContentionExceeded:  {429, true, false},
	NotLeader:           {503, true, false},
	LockLost:            {409, false, true},
	SessionUnknown:      {404, false, true},
	SessionExpired:      {410, false, true},
	InvalidToken:        {400, false, false},
	FencedOut:           {409, false, true},
	PayoutNotClaimable:  {409, false, true},
	DuplicateSubmission: {409, false, true},
	InsufficientFunds:   {422, false, true},
	IdempotencyConflict: {422, false, false},
	Rejected:            {422, false, true},
	RailUnavailable:     {503, true, true},
	RailAmbiguous:       {409, false, true},
	ValidationFailed:    {400, false, false},
	Unauthenticated:     {401, false, false},
	Forbidden:           {403, false, false},
	NotFound:            {404, false, false},
	Internal:            {500, false, false},
}

// Lookup returns the row of a code, and false for a code that is not in the table.
func Lookup(c Code) (Row, bool) {
	row, ok := table[c]
	return row, ok
}

// Codes lists every code, in no order.
func Codes() []Code {
	codes := make([]Code, 0, len(table))
	for code := range table {
		codes = append(codes, code)
	}
	return codes
}

// Error is the envelope of every refusal, as JSON in the answer's body and as a Go error on both sides.
type Error struct {
	Code             Code           `json:"code"`
	Message          string         `json:"message"`
	RetrySafe        bool           `json:"retrySafe"`
	RetryAfterMillis int64          `json:"retryAfterMillis,omitempty"`
	Details          map[string]any `json:"details,omitempty"`
	TraceID          string         `json:"traceId"`
}

// New makes an error of a code in the table; an unknown code is a programming error and panics.
func New(c Code, format string, args ...any) *Error {
	row, ok := table[c]
	if !ok {
		panic(fmt.Sprintf("apierr: code %q is not in the table", c))
	}
	return &Error{Code: c, Message: fmt.Sprintf(format, args...), RetrySafe: row.RetrySafe}
}

// With returns a copy of e with one more detail.
func (e *Error) With(key string, value any) *Error {
	details := make(map[string]any, len(e.Details)+1)
	for k, v := range e.Details {
		details[k] = v
	}
	details[key] = value
	c := *e
	c.Details = details
	return &c
}

// RetryAfter returns a copy of e that asks the caller to wait for d.
func (e *Error) RetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfterMillis = d.Milliseconds()
	return &c
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Field is a VALIDATION_FAILED error about one named field, header or parameter; details.fields maps
// each name to what was wrong with it.
func Field(name, format string, args ...any) *Error {
	return Fields(map[string]string{name: fmt.Sprintf(format, args...)})
}

// Fields is a VALIDATION_FAILED error about several fields at once.
func Fields(fields map[string]string) *Error {
	message := "the request is not valid"
	if len(fields) == 1 {
		for name, what := range fields {
			message = name + ": " + what
		}
	}
	return New(ValidationFailed, "%s", message).With("fields", fields)
}

// CodeOf returns the code of an *Error anywhere in err's chain, and "" when there is none: a failure
// that carries no code says nothing about what happened.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
