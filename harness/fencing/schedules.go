package main

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/client"
)

// pauseNote marks the schedules that this program paused: a later run puts back what a killed one left paused.
const pauseNote = "paused by the fencing experiment"

// pauseSchedules pauses every schedule that is not paused, so that nobody else starts the experiment's payouts. It returns what
// puts them back.
func pauseSchedules(ctx context.Context, temporal client.Client) (putBack func(context.Context) error, err error) {
	var mine []string
	putBack = func(ctx context.Context) error {
		var errs []error
		for _, id := range mine {
			if err := temporal.ScheduleClient().GetHandle(ctx, id).Unpause(ctx, client.ScheduleUnpauseOptions{Note: "the fencing experiment is over"}); err != nil {
				errs = append(errs, fmt.Errorf("schedule %s is still paused: %w", id, err))
			}
		}
		return errors.Join(errs...)
	}
	list, err := temporal.ScheduleClient().List(ctx, client.ScheduleListOptions{})
	if err != nil {
		return putBack, err
	}
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return putBack, err
		}
		handle := temporal.ScheduleClient().GetHandle(ctx, entry.ID)
		// The list is eventually consistent; the schedule itself is not.
		now, err := handle.Describe(ctx)
		if err != nil {
			return putBack, fmt.Errorf("schedule %s: %w", entry.ID, err)
		}
		if now.Schedule.State.Paused {
			if now.Schedule.State.Note == pauseNote {
				mine = append(mine, entry.ID)
			}
			continue
		}
		if err := handle.Pause(ctx, client.SchedulePauseOptions{Note: pauseNote}); err != nil {
			return putBack, fmt.Errorf("schedule %s: %w", entry.ID, err)
		}
		mine = append(mine, entry.ID)
	}
	return putBack, nil
}
