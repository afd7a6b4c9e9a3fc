package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"railguard/activities"
	"railguard/services/fencing"
	"railguard/services/paymentapi"
)

// Status is the answer to the query "status": where a run is.
type Status struct {
	PayoutID     string                 `json:"payoutId"`
	AccountID    string                 `json:"accountId,omitempty"`
	Step         string                 `json:"step"` // the activity type that is running, or one of the steps below
	State        paymentapi.PayoutState `json:"state,omitempty"`
	FencingToken fencing.Token          `json:"fencingToken,omitempty"`
}

// The steps of a run that are no activity.
const (
	StepStarted = "Started"
	StepEnded   = "Ended"
)

// execution is one run of ExecutePayout.
type execution struct {
	ctx     workflow.Context // cancelled when the run is asked to cancel; looked at between the steps
	steps   workflow.Context // disconnected: a step, once begun, is awaited whole
	options options

	payoutID  string
	accountID string
	ownerID   string // who holds the lock: this run

	state         paymentapi.PayoutState // as last told
	token         fencing.Token          // of the grant, for the result and the search attributes; every step gets it as an argument
	railReference string
	step          string

	published published
}

// published is what the search attributes say already: each upsert is an event in the history.
type published struct {
	payoutID, accountID string
	state               paymentapi.PayoutState
	token               fencing.Token
}

func begin(ctx workflow.Context, o options, in PayoutInput) (*execution, error) {
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	e := &execution{
		ctx:       ctx,
		steps:     disconnected,
		options:   o,
		payoutID:  in.PayoutID,
		accountID: in.AccountID,
		ownerID:   workflow.GetInfo(ctx).WorkflowExecution.RunID,
		step:      StepStarted,
	}
	started := workflow.GetTypedSearchAttributes(ctx)
	e.published.payoutID, _ = started.GetKeyword(PayoutIDAttribute)
	e.published.accountID, _ = started.GetKeyword(PayoutAccountIDAttribute)
	if err := workflow.SetQueryHandler(ctx, StatusQuery, e.status); err != nil {
		return nil, err
	}
	return e, e.publish()
}

func (e *execution) status() (Status, error) {
	return Status{PayoutID: e.payoutID, AccountID: e.accountID, Step: e.step, State: e.state, FencingToken: e.token}, nil
}

// publish upserts the search attributes that changed.
func (e *execution) publish() error {
	now := published{payoutID: e.payoutID, accountID: e.accountID, state: e.state, token: e.token}
	var updates []temporal.SearchAttributeUpdate
	if now.payoutID != e.published.payoutID {
		updates = append(updates, PayoutIDAttribute.ValueSet(now.payoutID))
	}
	if now.accountID != "" && now.accountID != e.published.accountID {
		updates = append(updates, PayoutAccountIDAttribute.ValueSet(now.accountID))
	}
	if now.state != "" && now.state != e.published.state {
		updates = append(updates, PayoutStateAttribute.ValueSet(string(now.state)))
	}
	if now.token.Valid() && now.token != e.published.token {
		updates = append(updates, FencingTokenAttribute.ValueSet(int64(now.token)))
	}
	e.published = now
	if len(updates) == 0 {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(e.ctx, updates...)
}

// cancelled reports whether the run was asked to cancel.
func (e *execution) cancelled() bool { return e.ctx.Err() != nil }

// do runs one step to its end.
func (e *execution) do(step string, o workflow.ActivityOptions, summary string, result any, args ...any) error {
	e.step = step
	o.Summary = bounded(summary)
	return workflow.ExecuteActivity(workflow.WithActivityOptions(e.steps, o), step, args...).Get(e.steps, result)
}

// maxSummary keeps a summary below the server's bound of 400 bytes: beyond it no workflow task completes.
const maxSummary = 200

func bounded(s string) string {
	if len(s) <= maxSummary {
		return s
	}
	return strings.ToValidUTF8(s[:maxSummary], "") + "…"
}

// told notes the payout's state where a service told it.
func (e *execution) told(state paymentapi.PayoutState) {
	if state != "" {
		e.state = state
	}
}

func (e *execution) result(ended ending) PayoutResult {
	return PayoutResult{
		PayoutID:      e.payoutID,
		AccountID:     e.accountID,
		Outcome:       ended.outcome,
		State:         e.state,
		FencingToken:  e.token,
		RailReference: e.railReference,
		Reason:        ended.reason,
	}
}

// MetricExecuteSeconds is the histogram of the time from the start of a run to its end.
const MetricExecuteSeconds = "payout_execute_seconds"

// MetricOutcomes are all values of its label "outcome". A contended run did nothing and is not counted.
var MetricOutcomes = []string{"posted", "failed", "abandoned", "ambiguous"}

func (e *execution) measure(outcome Outcome) {
	label := string(outcome)
	switch outcome {
	case OutcomeContended:
		return
	case OutcomeFenced:
		label = string(OutcomeAbandoned)
	}
	took := workflow.Now(e.ctx).Sub(workflow.GetInfo(e.ctx).WorkflowStartTime)
	workflow.GetMetricsHandler(e.ctx).WithTags(map[string]string{"outcome": label}).Timer(MetricExecuteSeconds).Record(took)
}

// lease is a grant as the workflow reckons with it, in workflow time.
type lease struct {
	token   fencing.Token
	ttl     time.Duration // what was granted
	from    time.Time     // not after the moment when the granted try was sent
	reserve time.Duration // what a submission needs of it
}

func newLease(grant activities.AcquireResult, scheduled time.Time) lease {
	return lease{
		token:   grant.FencingToken,
		ttl:     time.Duration(grant.TTLMillis) * time.Millisecond,
		from:    scheduled.Add(time.Duration(grant.SpentMillis) * time.Millisecond),
		reserve: time.Duration(grant.ReserveMillis) * time.Millisecond,
	}
}

// remaining errs towards less: queueing counts against the lease, waiting for the lock does not.
func (l lease) remaining(now time.Time) time.Duration { return l.ttl - now.Sub(l.from) }

// spare is what remains beyond a worst-case submission and the safety margin. A submission may start
// only while it is above zero.
func (l lease) spare(now time.Time) time.Duration { return l.remaining(now) - l.reserve }
