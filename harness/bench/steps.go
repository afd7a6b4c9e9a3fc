package main

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
)

// Step is one part of the time of a workflow that ran alone, in the order of the history.
type Step struct {
	Kind      kind    `json:"kind"`
	Name      string  `json:"name"`
	Times     float64 `json:"times"`     // how often it happens in one workflow
	P50Millis float64 `json:"p50Millis"` // of all its times in one workflow together
	MaxMillis float64 `json:"maxMillis"`
}

// Stall is a pause in the history of a workflow that ran alone, long enough to be worth a look.
type Stall struct {
	WorkflowID  string  `json:"workflowId"`
	PauseMillis float64 `json:"pauseMillis"`
	After       string  `json:"after"`  // the event before the pause
	Before      string  `json:"before"` // and the one that ended it
}

// stallFrom is the pause that is reported as a stall: no step of a lone workflow has a reason to take so long.
const stallFrom = 250 * time.Millisecond

// The parts that are not an activity. What is between client and history is the start's way in and the result's way out.
const (
	partTaskWaits     = "workflow tasks wait for the worker"
	partTaskRuns      = "workflow tasks run"
	partActivityWaits = "activities wait for the worker"
	partClient        = "before and after the history"
	partEvents        = "(history events)"
)

// explain reads where the time of the lone workflows went from their histories.
func (m *measurement) explain(ctx context.Context) ([]Step, []Stall, error) {
	steps, stalls := []Step{}, []Stall{}
	for _, k := range []kind{payoutKind, bareKind} {
		parts := &partition{times: map[string][]time.Duration{}, counts: map[string]int{}}
		for _, run := range m.loneRuns[k] {
			events, err := history(ctx, m.system.temporal, run.workflowID)
			if err != nil {
				return nil, nil, err
			}
			parts.add(events, run.latency)
			stalls = append(stalls, pauses(run.workflowID, events)...)
		}
		steps = append(steps, parts.steps(k, len(m.loneRuns[k]))...)
	}
	return steps, stalls, nil
}

func history(ctx context.Context, c client.Client, workflowID string) ([]*historypb.HistoryEvent, error) {
	var events []*historypb.HistoryEvent
	iterator := c.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", workflowID, err)
		}
		events = append(events, event)
	}
	return events, nil
}

// partition divides the times of several workflows into the same parts.
type partition struct {
	order  []string
	times  map[string][]time.Duration // part → its time in each workflow
	counts map[string]int             // part → how often it happened in all workflows
}

// add takes one workflow.
func (p *partition) add(events []*historypb.HistoryEvent, latency time.Duration) {
	one := map[string]time.Duration{}
	at := func(id int64) time.Time { return events[id-1].GetEventTime().AsTime() }
	activity := func(scheduled int64) string {
		return events[scheduled-1].GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
	}
	spend := func(part string, from, to time.Time) {
		if _, known := p.times[part]; !known {
			p.times[part] = nil
			p.order = append(p.order, part)
		}
		one[part] += to.Sub(from)
		p.counts[part]++
	}
	for _, e := range events {
		now := e.GetEventTime().AsTime()
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
			spend(partTaskWaits, at(e.GetWorkflowTaskStartedEventAttributes().GetScheduledEventId()), now)
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			spend(partTaskRuns, at(e.GetWorkflowTaskCompletedEventAttributes().GetStartedEventId()), now)
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
			spend(partActivityWaits, at(e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()), now)
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			a := e.GetActivityTaskCompletedEventAttributes()
			spend(activity(a.GetScheduledEventId()), at(a.GetStartedEventId()), now)
		}
	}
	inside := at(int64(len(events))).Sub(at(1))
	spend(partClient, time.Time{}, time.Time{}.Add(latency-inside))
	for _, part := range p.order {
		p.times[part] = append(p.times[part], one[part])
	}
	p.counts[partEvents] += len(events)
}

// steps are the parts, each by its median over the workflows.
func (p *partition) steps(k kind, workflows int) []Step {
	if workflows == 0 {
		return nil
	}
	var steps []Step
	for _, part := range p.order {
		steps = append(steps, Step{
			Kind: k, Name: part, Times: float64(p.counts[part]) / float64(workflows),
			P50Millis: millis(percentile(p.times[part], 50)), MaxMillis: millis(percentile(p.times[part], 100)),
		})
	}
	return append(steps, Step{Kind: k, Name: partEvents, Times: float64(p.counts[partEvents]) / float64(workflows)})
}

// pauses finds where nothing happened for long.
func pauses(workflowID string, events []*historypb.HistoryEvent) []Stall {
	var stalls []Stall
	for i := 1; i < len(events); i++ {
		pause := events[i].GetEventTime().AsTime().Sub(events[i-1].GetEventTime().AsTime())
		if pause >= stallFrom {
			stalls = append(stalls, Stall{WorkflowID: workflowID, PauseMillis: millis(pause),
				After: events[i-1].GetEventType().String(), Before: events[i].GetEventType().String()})
		}
	}
	return stalls
}
