package main

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"railguard/harness/fencing/evidence"
)

// acquireLock is the activity whose result is the grant.
const acquireLock = "AcquireLock"

// result is what the experiment reads of an activity's result, and of a run's.
type result struct {
	Outcome      string `json:"outcome"`
	State        string `json:"state"`
	Reason       string `json:"reason"`
	FencingToken int64  `json:"fencingToken"`
}

// readHistory reads the steps of a run from its history, and the token that its AcquireLock was granted.
func readHistory(ctx context.Context, temporal client.Client, workflowID, runID string) (steps []evidence.Step, token int64, err error) {
	at := make(map[int64]int) // scheduled event → step
	iterator := temporal.GetWorkflowHistory(ctx, workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		e, err := iterator.Next()
		if err != nil {
			return nil, 0, err
		}
		when := e.GetEventTime().AsTime()
		ended := func(scheduled int64, outcome, reason string) {
			if i, ok := at[scheduled]; ok {
				steps[i].EndedAt, steps[i].Outcome, steps[i].Reason = &when, outcome, reason
			}
		}
		switch e.GetEventType() {
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			at[e.GetEventId()] = len(steps)
			steps = append(steps, evidence.Step{Name: e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(), ScheduledAt: when})
		case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
			if i, ok := at[e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()]; ok {
				steps[i].StartedAt = &when
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			a := e.GetActivityTaskCompletedEventAttributes()
			r := decode(a)
			ended(a.GetScheduledEventId(), r.Outcome, r.Reason)
			if i := at[a.GetScheduledEventId()]; steps[i].Name == acquireLock && r.Outcome == "granted" {
				token = r.FencingToken
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
			a := e.GetActivityTaskFailedEventAttributes()
			ended(a.GetScheduledEventId(), "failed", a.GetFailure().GetMessage())
		case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
			a := e.GetActivityTaskTimedOutEventAttributes()
			ended(a.GetScheduledEventId(), "timedOut", a.GetFailure().GetMessage())
		}
	}
	return steps, token, nil
}

// decode reads a result; one that cannot be read has no outcome.
func decode(a *historypb.ActivityTaskCompletedEventAttributes) (r result) {
	if payloads := a.GetResult().GetPayloads(); len(payloads) == 1 {
		_ = json.Unmarshal(payloads[0].GetData(), &r)
	}
	return r
}

// runTimes are when a run started and ended; the end is zero while it has not.
func runTimes(ctx context.Context, temporal client.Client, workflowID, runID string) (started, ended time.Time, err error) {
	d, err := temporal.DescribeWorkflow(ctx, workflowID, runID)
	if err != nil {
		return started, ended, err
	}
	if d.WorkflowCloseTime != nil {
		ended = *d.WorkflowCloseTime
	}
	return d.WorkflowStartTime, ended, nil
}

// inside reports whether a run's only pending activity is of that type and handed out to a worker.
func inside(ctx context.Context, temporal client.Client, workflowID, runID, activity string) (bool, error) {
	d, err := temporal.DescribeWorkflow(ctx, workflowID, runID)
	if err != nil {
		return false, err
	}
	pending := d.RawResponse.GetPendingActivities()
	return len(pending) == 1 && pending[0].GetActivityType().GetName() == activity &&
		pending[0].GetState() == enums.PENDING_ACTIVITY_STATE_STARTED && pending[0].GetAttempt() == 1, nil
}
