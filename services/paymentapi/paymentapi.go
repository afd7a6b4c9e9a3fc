// Package paymentapi is the wire form of payment-resource and its typed client.
package paymentapi

import (
	"encoding/json"
	"time"

	"railguard/services/fencing"
	"railguard/services/money"
)

// PayoutState is a state of the payout state machine.
type PayoutState string

// The payout states. Posted, Failed and Abandoned have no way out; RailAmbiguous has none without a
// recorded resolution (INV-08).
const (
	Pending       PayoutState = "PENDING"
	Claimed       PayoutState = "CLAIMED"
	RailSubmitted PayoutState = "RAIL_SUBMITTED"
	RailAcked     PayoutState = "RAIL_ACKED"
	RailAmbiguous PayoutState = "RAIL_AMBIGUOUS"
	Posted        PayoutState = "POSTED"
	Failed        PayoutState = "FAILED"
	Abandoned     PayoutState = "ABANDONED"
)

// States lists every payout state.
var States = []PayoutState{Pending, Claimed, RailSubmitted, RailAcked, RailAmbiguous, Posted, Failed, Abandoned}

// AccountKind tells customers' accounts, which hold a balance, from clearing accounts, whose balance is
// computed from the ledger.
type AccountKind string

// The account kinds.
const (
	Customer AccountKind = "CUSTOMER"
	Clearing AccountKind = "CLEARING"
)

// CreateAccountRequest makes an account (P0). Opening funding above zero becomes a FUNDING entry group;
// its external reference is "opening:<accountId>".
type CreateAccountRequest struct {
	AccountID    string         `json:"accountId"` // 1 to 64 characters of [A-Za-z0-9._-]
	Currency     money.Currency `json:"currency"`
	OpeningMinor int64          `json:"openingMinor,omitempty"`
}

// FundingRequest credits a customer account (P0). A repeated ExternalRef with the same body answers the same.
type FundingRequest struct {
	ExternalRef string `json:"externalRef"` // 1 to 128 characters
	AmountMinor int64  `json:"amountMinor"`
}

// Funding is a recorded funding.
type Funding struct {
	ExternalRef  string    `json:"externalRef"`
	AccountID    string    `json:"accountId"`
	AmountMinor  int64     `json:"amountMinor"`
	BalanceMinor int64     `json:"balanceMinor"`
	At           time.Time `json:"at"`
}

// Account is what P5 says. LedgerSumMinor is recomputed from the entries on each call.
type Account struct {
	AccountID      string         `json:"accountId"`
	Kind           AccountKind    `json:"kind"`
	Currency       money.Currency `json:"currency"`
	BalanceMinor   int64          `json:"balanceMinor"`
	ReservedMinor  int64          `json:"reservedMinor"`
	AvailableMinor int64          `json:"availableMinor"`
	Fence          fencing.Token  `json:"fence"` // 0 before the first claim
	LedgerSumMinor int64          `json:"ledgerSumMinor"`
}

// CreatePayoutRequest makes a PENDING payout (P0).
type CreatePayoutRequest struct {
	ExternalRef    string         `json:"externalRef"` // 1 to 128 characters; a repeat with the same body answers the same payout
	AccountID      string         `json:"accountId"`
	AmountMinor    int64          `json:"amountMinor"` // above 0
	Currency       money.Currency `json:"currency"`    // the account's
	BeneficiaryRef string         `json:"beneficiaryRef"`
}

// CreatePayoutsRequest makes up to 1000 payouts at once: all of them, or none and the reason for each refused one.
// With CheckOnly they are judged in the same way and nothing is written: the answer's Created is how many would be
// new, and its Payouts are the others.
type CreatePayoutsRequest struct {
	Payouts   []CreatePayoutRequest `json:"payouts"`
	CheckOnly bool                  `json:"checkOnly,omitempty"`
}

// MaxBatch is the bound of CreatePayoutsRequest.
const MaxBatch = 1000

// CreatePayoutsResponse gives the payouts in the order of the request. Created is how many of them this
// request made; the others had been made before, from the same external reference and body.
type CreatePayoutsResponse struct {
	Created int      `json:"created"`
	Payouts []Payout `json:"payouts"`
}

// Payout is one payout. Transitions are present on P4 only, oldest first.
type Payout struct {
	PayoutID       string         `json:"payoutId"` // a UUID
	ExternalRef    string         `json:"externalRef"`
	AccountID      string         `json:"accountId"`
	AmountMinor    int64          `json:"amountMinor"`
	Currency       money.Currency `json:"currency"`
	BeneficiaryRef string         `json:"beneficiaryRef"`
	State          PayoutState    `json:"state"`
	StateReason    string         `json:"stateReason,omitempty"`
	ClaimedBy      string         `json:"claimedBy,omitempty"`
	ClaimToken     fencing.Token  `json:"claimToken,omitempty"`
	AttemptCount   int            `json:"attemptCount"`
	RailReference  string         `json:"railReference,omitempty"`
	CreatedAt      time.Time      `json:"createdAt"`
	UpdatedAt      time.Time      `json:"updatedAt"`
	Transitions    []Transition   `json:"transitions,omitempty"`
}

// Transition is one row of the audit table.
type Transition struct {
	FromState PayoutState   `json:"fromState,omitempty"` // absent for the creation
	ToState   PayoutState   `json:"toState"`
	Token     fencing.Token `json:"token,omitempty"`
	OwnerID   string        `json:"ownerId,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	At        time.Time     `json:"at"`
}

// ListPayoutsRequest selects payouts oldest first (P1). Limit is 1 to 500. Cursor is what the page before
// gave. OnePerAccount keeps the oldest of each account.
type ListPayoutsRequest struct {
	State         PayoutState
	AccountID     string
	Limit         int
	Cursor        string
	OnePerAccount bool
}

// PayoutPage is one page; NextCursor is "" on the last.
type PayoutPage struct {
	Payouts    []Payout `json:"payouts"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// Claimable as ExpectedState accepts any of PENDING, CLAIMED and RAIL_ACKED.
const Claimable = "CLAIMABLE"

// ClaimRequest claims a payout under a token (P2). AccountID is the account whose lock is held: a payout
// of another account is VALIDATION_FAILED and nothing is written.
type ClaimRequest struct {
	AccountID     string `json:"accountId"`
	ExpectedState string `json:"expectedState"` // PENDING, CLAIMED, RAIL_ACKED or CLAIMABLE
}

// Claim is a granted claim. PreviousState tells a first claim (PENDING) from a recovery.
type Claim struct {
	PayoutID       string         `json:"payoutId"`
	AccountID      string         `json:"accountId"`
	AmountMinor    int64          `json:"amountMinor"`
	Currency       money.Currency `json:"currency"`
	BeneficiaryRef string         `json:"beneficiaryRef"`
	State          PayoutState    `json:"state"`
	PreviousState  PayoutState    `json:"previousState"`
	ClaimToken     fencing.Token  `json:"claimToken"`
	AccountFence   fencing.Token  `json:"accountFence"`
	AttemptCount   int            `json:"attemptCount"`
	IdempotencyKey string         `json:"idempotencyKey"`
}

// PostRequest posts the ledger of an acknowledged payout (P3). From RAIL_ACKED the rail's fields are
// stored already and may be left out.
type PostRequest struct {
	RailReference string     `json:"railReference,omitempty"`
	SubmissionID  string     `json:"submissionId,omitempty"`
	RailOutcome   string     `json:"railOutcome,omitempty"` // ACKED
	SubmittedAt   *time.Time `json:"submittedAt,omitempty"`
	ResolvedAt    *time.Time `json:"resolvedAt,omitempty"`
}

// LedgerEntry is one leg of an entry group.
type LedgerEntry struct {
	EntryID     int64         `json:"entryId"`
	EntryGroup  string        `json:"entryGroup"`
	AccountID   string        `json:"accountId"`
	Direction   string        `json:"direction"` // DEBIT or CREDIT
	AmountMinor int64         `json:"amountMinor"`
	Fence       fencing.Token `json:"fence"`
}

// Posting is a posted payout: its two entries and the customer's balance after them.
type Posting struct {
	PayoutID      string        `json:"payoutId"`
	State         PayoutState   `json:"state"`
	RailReference string        `json:"railReference"`
	Entries       []LedgerEntry `json:"entries"`
	BalanceMinor  int64         `json:"balanceMinor"`
}

// RailOutcomeRequest records that the rail declined or that nobody knows (P6).
type RailOutcomeRequest struct {
	RailOutcome  string `json:"railOutcome"` // REJECTED or TIMEOUT
	SubmissionID string `json:"submissionId,omitempty"`
	Reason       string `json:"reason"`
}

// AbandonRequest hands a claim back (P7): the claim is closed, the payout stays CLAIMED.
type AbandonRequest struct {
	Reason string `json:"reason"`
}

// PayoutStatus is the state of a payout after P6, P7, P8 or P9.
type PayoutStatus struct {
	PayoutID      string      `json:"payoutId"`
	AccountID     string      `json:"accountId"`
	State         PayoutState `json:"state"`
	StateReason   string      `json:"stateReason,omitempty"`
	RailReference string      `json:"railReference,omitempty"`
}

// The resolutions of an ambiguous payout.
const (
	ResolutionSettled   = "SETTLED"   // the money moved: RAIL_ACKED
	ResolutionAbsent    = "ABSENT"    // nothing was or will be presented, or the rail knows nothing after its window: FAILED
	ResolutionAbandoned = "ABANDONED" // a person decided: ABANDONED
)

// ResolutionRequest resolves a payout in RAIL_AMBIGUOUS (P8).
type ResolutionRequest struct {
	Outcome       string          `json:"outcome"`
	RailReference string          `json:"railReference,omitempty"` // required with SETTLED
	Evidence      json.RawMessage `json:"evidence,omitempty"`      // a JSON object; required with SETTLED and ABSENT
	Reason        string          `json:"reason"`
	// SecondOperator names the operator whose own approval the decision waits for, or who has given it.
	SecondOperator string `json:"secondOperator,omitempty"`
	// EvidenceOnly, for the resolver, records SETTLED or ABSENT as what software found out, and decides nothing.
	EvidenceOnly bool `json:"evidenceOnly,omitempty"`
}

// CancelRequest abandons a payout that is still PENDING (P9).
type CancelRequest struct {
	Operator string `json:"operator"`
	Reason   string `json:"reason"`
}
