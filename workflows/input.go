package workflows

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"railguard/services/apierr"
	"railguard/services/strictjson"
)

// PayoutInput starts ExecutePayout. AccountID may be left out; it only names the lock, and a claim whose
// payout belongs to another account is refused.
type PayoutInput struct {
	PayoutID  string `json:"payoutId"`            // a UUID in its canonical lower-case form
	AccountID string `json:"accountId,omitempty"` // 1 to 64 characters of [A-Za-z0-9._-]
}

// ErrorBadInput is the type of the application error with which a workflow ends whose input is not what
// it takes; its message says what is wrong.
const ErrorBadInput = "BadInput"

// decodeInput reads the input strictly. The SDK's own decoding lets a missing input, null and unknown
// fields through as a payout without an id.
func decodeInput(raw converter.RawValue) (PayoutInput, error) {
	var in PayoutInput
	err := decodePayload(raw, &in)
	if err == nil {
		err = in.validate()
	}
	if err != nil {
		return PayoutInput{}, temporal.NewNonRetryableApplicationError(bounded("input: "+err.Error()), ErrorBadInput, nil)
	}
	return in, nil
}

func decodePayload(raw converter.RawValue, into any) error {
	payload := raw.Payload()
	if payload == nil {
		return errors.New(`missing, want {"payoutId":"…"}`)
	}
	if encoding := string(payload.GetMetadata()[converter.MetadataEncoding]); encoding != converter.MetadataEncodingJSON {
		return fmt.Errorf(`encoding %q, want JSON: {"payoutId":"…"}`, encoding)
	}
	// Decoding bytes of the history is deterministic; the checker follows encoding/json into the runtime's allocator.
	return strictjson.Decode(payload.GetData(), into) //workflowcheck:ignore
}

func (in PayoutInput) validate() error {
	if in.PayoutID == "" {
		return errors.New("payoutId: missing")
	}
	if id, err := uuid.Parse(in.PayoutID); err != nil || id.String() != in.PayoutID {
		return fmt.Errorf("payoutId: %.80q is not a UUID in its canonical lower-case form", in.PayoutID)
	}
	if in.AccountID != "" && !validAccount(in.AccountID) {
		return fmt.Errorf("accountId: %.80q is not 1 to 64 characters of [A-Za-z0-9._-]", in.AccountID)
	}
	return nil
}

func validAccount(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// aboutInput turns a refusal of what the run was started with, a payout that does not exist or one of
// another account than the named one, into the error of a bad input. Any other error stays as it is.
func aboutInput(err error) error {
	var refused *temporal.ApplicationError
	if !errors.As(err, &refused) {
		return err
	}
	switch apierr.Code(refused.Type()) {
	case apierr.NotFound, apierr.ValidationFailed:
		return temporal.NewNonRetryableApplicationError(bounded("input: "+refused.Message()), ErrorBadInput, nil)
	}
	return err
}
