package activities

import (
	"context"
	"slices"
	"time"

	"railguard/services/fencing"
	"railguard/services/railapi"
)

// LookupInput names the payout.
type LookupInput struct {
	PayoutID string `json:"payoutId"`
}

// LookupOutcome is what the proxy's own record says of a payout.
type LookupOutcome string

// The outcomes of LookupSubmission. NothingPresented never says that submitting is safe: the guard
// decides that when it is asked to submit.
const (
	NothingPresented LookupOutcome = "nothingPresented" // no record, or only FENCED and UNSENT ones
	FoundAcked       LookupOutcome = "acked"
	FoundRejected    LookupOutcome = "rejected"
	FoundUnknown     LookupOutcome = "unknown" // TIMEOUT, no outcome yet, or an outcome that this version does not know
)

// LookupResult is the record that decides, if there is one.
type LookupResult struct {
	Outcome       LookupOutcome `json:"outcome"`
	SubmissionID  string        `json:"submissionId,omitempty"`
	RailReference string        `json:"railReference,omitempty"`
	SubmittedAt   *time.Time    `json:"submittedAt,omitempty"`
	ResolvedAt    *time.Time    `json:"resolvedAt,omitempty"`
}

// LookupSubmission reads the proxy's own record of a payout. The token is that of the run that asks.
func (a *Activities) LookupSubmission(ctx context.Context, token fencing.Token, in LookupInput) (LookupResult, error) {
	tag(ctx, token)
	found, err := a.Rail.Submissions(ctx, in.PayoutID)
	if err != nil {
		return LookupResult{}, failure(err)
	}
	// A record of another payout must not settle this one, and no list at all is not an empty one.
	other := func(record railapi.Submission) bool { return record.PayoutID != in.PayoutID }
	if found.PayoutID != in.PayoutID || found.Submissions == nil || slices.ContainsFunc(found.Submissions, other) {
		return LookupResult{}, otherAnswer("the look-up", in.PayoutID)
	}
	return judge(found.Submissions), nil
}

// judge picks the record that decides. With the guards on at most one was presented (INV-02); with them
// off there may be several, and then an acknowledgement outweighs a doubt and a doubt outweighs a refusal.
func judge(records []railapi.Submission) LookupResult {
	weight := map[LookupOutcome]int{NothingPresented: 0, FoundRejected: 1, FoundUnknown: 2, FoundAcked: 3}
	result := LookupResult{Outcome: NothingPresented}
	for i := range records {
		record := &records[i]
		outcome := outcomeOf(record)
		if weight[outcome] <= weight[result.Outcome] {
			continue
		}
		result = LookupResult{Outcome: outcome, SubmissionID: submissionID(record.SubmissionID), SubmittedAt: &record.SubmittedAt, ResolvedAt: record.ResolvedAt}
		if outcome == FoundAcked {
			result.RailReference = record.RailReference
		}
	}
	return result
}

func outcomeOf(record *railapi.Submission) LookupOutcome {
	switch record.Outcome {
	case railapi.Fenced, railapi.Unsent:
		return NothingPresented
	case railapi.Rejected:
		return FoundRejected
	case railapi.Acked:
		if complete(record) {
			return FoundAcked
		}
	}
	return FoundUnknown
}
