// Package workflows holds ExecutePayout: one payout, in fixed order, under one token. The code here is
// deterministic and does no I/O; the steps are in the package activities.
package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
	"railguard/services/fencing"
	"railguard/services/paymentapi"
)

// Outcome is how a run ended.
type Outcome string

// The outcomes of a run.
const (
	OutcomePosted    Outcome = "posted"    // the money moved and the ledger says so
	OutcomeFailed    Outcome = "failed"    // the rail declined, or there were no funds
	OutcomeAmbiguous Outcome = "ambiguous" // nobody knows; only a recorded resolution leads on
	OutcomeFenced    Outcome = "fenced"    // a newer token was seen; another run has taken over
	OutcomeAbandoned Outcome = "abandoned" // given up; a later pass goes on from what is recorded
	OutcomeContended Outcome = "contended" // nothing was done
)

// PayoutResult is what a run reports. State is the payout's state as last told to the run; it is empty
// when nobody told it.
type PayoutResult struct {
	PayoutID      string                 `json:"payoutId"`
	AccountID     string                 `json:"accountId"`
	Outcome       Outcome                `json:"outcome"`
	State         paymentapi.PayoutState `json:"state"`
	FencingToken  fencing.Token          `json:"fencingToken,omitempty"` // of the grant, if there was one
	RailReference string                 `json:"railReference,omitempty"`
	Reason        string                 `json:"reason,omitempty"`
}

// Payouts are the workflows of a worker with the given timing.
type Payouts struct{ Timing activities.Timing }

// ExecutePayout executes one payout: acquire, claim, check the lease, submit once, post, release. Its
// input is a PayoutInput, taken raw so that it can be decoded strictly. A business outcome is a result;
// the run fails only on bad input and on refusals that no repetition can change.
func (p *Payouts) ExecutePayout(ctx workflow.Context, raw converter.RawValue) (PayoutResult, error) {
	in, err := decodeInput(raw)
	if err != nil {
		return PayoutResult{}, err
	}
	e, err := begin(ctx, options{p.Timing}, in)
	if err != nil {
		return PayoutResult{}, err
	}
	ended, err := e.run()
	if published := e.publish(); err == nil {
		err = published
	}
	e.step = StepEnded
	if err != nil {
		return PayoutResult{}, err
	}
	e.measure(ended.outcome)
	return e.result(ended), nil
}

// ending is how a run ends: the outcome and why. The state stands in the execution's status.
type ending struct {
	outcome Outcome
	reason  string
}

func (e *execution) run() (ending, error) {
	if e.accountID == "" {
		if err := e.load(); err != nil {
			return unlessPermanent(aboutInput(err), ending{OutcomeContended, "the payout could not be read: " + short(err)})
		}
	}
	if e.cancelled() {
		return ending{OutcomeAbandoned, "cancelled before the lock was asked for"}, nil
	}
	held, contended, err := e.acquire()
	if err != nil {
		return unlessPermanent(err, ending{OutcomeContended, "the lock was not acquired: " + short(err)})
	}
	if contended != "" {
		return ending{OutcomeContended, contended}, nil
	}
	ended, err := e.underLock(held.token, held)
	e.release(held.token)
	return ended, err
}

// underLock is everything between the acquire and the release.
func (e *execution) underLock(token fencing.Token, held lease) (ending, error) {
	if e.cancelled() {
		return ending{OutcomeAbandoned, "cancelled before the claim"}, nil
	}
	remaining := held.remaining(workflow.Now(e.ctx))
	if remaining <= 0 {
		return ending{OutcomeAbandoned, "the lease was over before the claim"}, nil
	}
	claim, err := e.claim(token, remaining)
	if err != nil {
		if refused := permanent(aboutInput(err)); refused != nil {
			return ending{}, refused
		}
		return e.handBack(token, OutcomeAbandoned, "the claim was not answered: "+short(err)), nil
	}
	switch claim.Outcome {
	case activities.Accepted:
		return e.claimed(token, held, claim)
	case activities.FencedOut:
		return ending{OutcomeFenced, claim.Reason}, nil
	case activities.InsufficientFunds:
		return ending{OutcomeFailed, claim.Reason}, nil
	case activities.NotClaimable:
		return ending{OutcomeContended, claim.Reason}, nil
	}
	return e.handBack(token, OutcomeAbandoned, "the claim answered an outcome that is not known"), nil
}

// claimed goes on from a granted claim. Whatever was CLAIMED or RAIL_ACKED before is a recovery.
func (e *execution) claimed(token fencing.Token, held lease, claim activities.ClaimResult) (ending, error) {
	if claim.PreviousState == paymentapi.RailAcked {
		return e.post(token, claim, acknowledgement{})
	}
	if e.cancelled() {
		return e.handBack(token, OutcomeAbandoned, "cancelled before the submission"), nil
	}
	if claim.PreviousState != paymentapi.Pending {
		found, err := e.lookup(token)
		if err != nil {
			return e.handBack(token, OutcomeAbandoned, "the look-up was not answered: "+short(err)), nil
		}
		if found.Outcome != activities.NothingPresented {
			return e.settle(token, claim, found)
		}
	}
	return e.submit(token, held, claim)
}
