package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
	"railguard/services/fencing"
	"railguard/services/money"
)

// The activity types, each the name of a method of activities.Activities.
const (
	loadPayout        = "LoadPayout"
	acquireLock       = "AcquireLock"
	claimPayout       = "ClaimPayout"
	lookupSubmission  = "LookupSubmission"
	submitToRail      = "SubmitToRail"
	postLedger        = "PostLedger"
	recordRailOutcome = "RecordRailOutcome"
	abandonClaim      = "AbandonClaim"
	releaseLock       = "ReleaseLock"
)

// lockKey is the name of the lock of the account.
func (e *execution) lockKey() string { return "payout:" + e.accountID }

func (e *execution) load() error {
	var loaded activities.LoadResult
	err := e.do(loadPayout, e.options.load(), "Find the account of the payout", &loaded, activities.LoadInput{PayoutID: e.payoutID})
	if err != nil {
		return err
	}
	e.accountID = loaded.AccountID
	e.told(loaded.State)
	return nil
}

// acquire returns the lease, or why the lock is contended.
func (e *execution) acquire() (held lease, contended string, err error) {
	scheduled := workflow.Now(e.ctx)
	var grant activities.AcquireResult
	err = e.do(acquireLock, e.options.acquire(), "Ask for the lock "+e.lockKey(), &grant,
		activities.AcquireInput{Key: e.lockKey(), OwnerID: e.ownerID})
	if err != nil {
		return lease{}, "", err
	}
	if grant.Outcome != activities.Granted || !grant.FencingToken.Valid() {
		return lease{}, cmp.Or(grant.Reason, "no grant"), nil
	}
	e.token = grant.FencingToken
	if span, ok := opentelemetry.SpanFromWorkflowContext(e.ctx); ok {
		span.SetAttributes(attribute.Int64("lock.token", int64(grant.FencingToken)))
	}
	return newLease(grant, scheduled), "", nil
}

func (e *execution) claim(token fencing.Token, within time.Duration) (activities.ClaimResult, error) {
	var claim activities.ClaimResult
	err := e.do(claimPayout, e.options.claim(within), fmt.Sprintf("Claim under token %d", token), &claim,
		token, activities.ClaimInput{PayoutID: e.payoutID, AccountID: e.accountID, OwnerID: e.ownerID})
	if err != nil {
		return claim, err
	}
	e.told(claim.State)
	return claim, e.publish()
}

func (e *execution) lookup(token fencing.Token) (activities.LookupResult, error) {
	var found activities.LookupResult
	err := e.do(lookupSubmission, e.options.lookup(), "Read the rail-proxy's own record", &found,
		token, activities.LookupInput{PayoutID: e.payoutID})
	return found, err
}

func (e *execution) submitOnce(token fencing.Token, scheduleToStart time.Duration, claim activities.ClaimResult) (activities.SubmitResult, error) {
	var submitted activities.SubmitResult
	amount := money.Amount{Minor: claim.AmountMinor, Currency: claim.Currency}
	err := e.do(submitToRail, e.options.submit(scheduleToStart), fmt.Sprintf("Submit %s under token %d, once", amount, token), &submitted,
		token, activities.SubmitInput{
			Key:            e.lockKey(),
			OwnerID:        e.ownerID,
			PayoutID:       e.payoutID,
			AccountID:      e.accountID,
			AmountMinor:    claim.AmountMinor,
			Currency:       claim.Currency,
			BeneficiaryRef: claim.BeneficiaryRef,
			IdempotencyKey: claim.IdempotencyKey,
		})
	return submitted, err
}

// handBack closes the claim on every branch that ends before the money could have moved. Where that is
// refused or not answered, the payout stays CLAIMED and the next claim recovers it all the same.
func (e *execution) handBack(token fencing.Token, outcome Outcome, reason string) ending {
	var result activities.WriteResult
	err := e.do(abandonClaim, e.options.abandon(), "Hand the claim back: "+reason, &result,
		token, activities.AbandonInput{PayoutID: e.payoutID, AccountID: e.accountID, OwnerID: e.ownerID, Reason: reason})
	if err != nil {
		workflow.GetLogger(e.ctx).Warn("the claim was not handed back", "error", err)
	}
	e.told(result.State)
	return ending{outcome, reason}
}

// release frees the lock, on every branch. Expiry is the fallback.
func (e *execution) release(token fencing.Token) {
	var result activities.ReleaseResult
	err := e.do(releaseLock, e.options.release(), "Release the lock "+e.lockKey(), &result,
		token, activities.ReleaseInput{Key: e.lockKey(), OwnerID: e.ownerID})
	if err != nil {
		workflow.GetLogger(e.ctx).Warn("the lock was not released; it will expire", "error", err)
	}
}
