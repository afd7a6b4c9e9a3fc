package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"railguard/deploy/local"
	"railguard/services/httpclient"
	"railguard/services/paymentapi"
	"railguard/workflows"
)

const (
	intakeOwner = "bench"
	currency    = "EUR"
	amountMinor = 100
	// batch keeps a request of some 160 bytes a payout well below the services' bound on bodies, 64 KiB.
	batch = 200
)

// outcomeFailedRun counts a payout whose workflow failed: it has no outcome at all.
const outcomeFailedRun workflows.Outcome = "workflow failed"

// payoutRunner starts payouts that were made before, each once, and waits for each.
type payoutRunner struct {
	temporal client.Client
	payouts  []workflows.PayoutInput
	next     atomic.Int64

	mutex    sync.Mutex
	outcomes map[workflows.Outcome]int
}

// newPayouts makes funded accounts and n PENDING payouts over them in turn. It is not part of what is measured.
func newPayouts(ctx context.Context, s *system, n, accounts int) (*payoutRunner, error) {
	intake, err := paymentapi.NewClient(s.stack.URL(local.PaymentResource), httpclient.Identity{Bearer: s.stack.Bearer("intake")})
	if err != nil {
		return nil, err
	}
	for i := range accounts {
		_, err := intake.CreateAccount(ctx, intakeOwner, paymentapi.CreateAccountRequest{
			AccountID: accountID(i), Currency: currency, OpeningMinor: int64(n) * amountMinor})
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", accountID(i), err)
		}
	}
	r := &payoutRunner{temporal: s.temporal, outcomes: map[workflows.Outcome]int{}}
	for len(r.payouts) < n {
		var request paymentapi.CreatePayoutsRequest
		for i := len(r.payouts); i < min(n, len(r.payouts)+batch); i++ {
			request.Payouts = append(request.Payouts, paymentapi.CreatePayoutRequest{
				ExternalRef: fmt.Sprintf("bench-%d", i), AccountID: accountID(i % accounts),
				AmountMinor: amountMinor, Currency: currency, BeneficiaryRef: fmt.Sprintf("beneficiary-%d", i)})
		}
		made, err := intake.CreatePayouts(ctx, intakeOwner, request)
		if err != nil {
			return nil, fmt.Errorf("payouts: %w", err)
		}
		for _, p := range made.Payouts {
			r.payouts = append(r.payouts, workflows.PayoutInput{PayoutID: p.PayoutID, AccountID: p.AccountID})
		}
	}
	return r, nil
}

func accountID(i int) string { return fmt.Sprintf("bench-%d", i) }

// execute runs the next payout to its end. One that does not end POSTED is counted and is no error.
func (r *payoutRunner) execute(ctx context.Context) (workflowID string, err error) {
	in := r.payouts[r.next.Add(1)-1]
	run, err := r.temporal.ExecuteWorkflow(ctx, workflows.StartOptions(local.TaskQueue, in), workflows.ExecutePayoutType, in)
	if err != nil {
		return "", fmt.Errorf("start of payout %s: %w", in.PayoutID, err)
	}
	var result workflows.PayoutResult
	if err := run.Get(ctx, &result); err != nil {
		var failed *temporal.WorkflowExecutionError
		if !errors.As(err, &failed) {
			return "", fmt.Errorf("payout %s: %w", in.PayoutID, err)
		}
		result.Outcome = outcomeFailedRun
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.outcomes[result.Outcome]++
	return run.GetID(), nil
}
