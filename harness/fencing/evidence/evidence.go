// Package evidence is what one run of the fencing experiment found: the facts as they were read from the databases, the
// rail stub's own log, the guards and the histories, the table that a mode must show, and the verdict. It reads
// nothing itself; the same facts give the same verdict.
package evidence

import "time"

// Mode says which of the two guards compare tokens.
type Mode string

// The modes. Off is the corrupting one: it must move the money twice.
const (
	Off         Mode = "off"
	RailOnly    Mode = "rail-only"
	AccountOnly Mode = "account-only"
	On          Mode = "on"
)

// Modes lists every mode, the corrupting one first.
var Modes = []Mode{Off, RailOnly, AccountOnly, On}

// AccountGuard reports whether payment-resource compares tokens in this mode.
func (m Mode) AccountGuard() bool { return m == On || m == AccountOnly }

// RailGuard reports whether rail-proxy compares tokens in this mode.
func (m Mode) RailGuard() bool { return m == On || m == RailOnly }

// Pause is how worker A is stopped in mid-payout.
type Pause string

// The pauses. NoPause is the control: nothing stops, and the lock service alone must suffice in every mode.
const (
	Stop    Pause = "stop" // SIGSTOP, later SIGCONT, to the worker's own process
	NoPause Pause = "none"
)

// Mechanism says in words how A is stopped.
func (p Pause) Mechanism() string {
	if p == Stop {
		return "SIGSTOP and SIGCONT to worker A's own process"
	}
	return "no pause"
}

// Run is one run of the experiment: one mode, one system, several repetitions. It is what verdict.json holds.
type Run struct {
	Mode         Mode         `json:"mode"`
	Pause        Pause        `json:"pause"`
	Mechanism    string       `json:"pauseMechanism"`
	Seed         uint64       `json:"seed"` // of the pause offsets
	Parallel     int          `json:"parallel"`
	Stack        string       `json:"stack"` // local: started for this run; running: it was there before
	Timing       Timing       `json:"timing"`
	StartedAt    time.Time    `json:"startedAt"`
	EndedAt      time.Time    `json:"endedAt"`
	GuardsBefore Guards       `json:"guardsBefore"`
	GuardsAfter  Guards       `json:"guardsAfter"`
	Repetitions  []Repetition `json:"repetitions"`
	Counters     []Counter    `json:"counters"`   // of the guards, over the whole run
	Invariants   []Finding    `json:"invariants"` // what the invariant checker found afterwards: empty is clean, null not asked
	Summary      Summary      `json:"summary"`
}

// Timing is the arithmetic of a run, in milliseconds.
type Timing struct {
	LeaseMillis        int64 `json:"leaseMillis"`        // PAYOUT_LOCK_TTL of both workers
	WorkMillis         int64 `json:"workMillis"`         // PAYOUT_WORK_DURATION of worker A
	PauseOffsetMillis  int64 `json:"pauseOffsetMillis"`  // asked for; each attempt varies it with the seed
	RailTimeoutMillis  int64 `json:"railTimeoutMillis"`  // RAIL_TIMEOUT of rail-proxy
	SubmitBudgetMillis int64 `json:"submitBudgetMillis"` // SUBMIT_BUDGET of both workers
}

// Guards is what the two guards said of themselves at /info.
type Guards struct {
	PaymentResource GuardInfo `json:"paymentResource"`
	RailProxy       GuardInfo `json:"railProxy"`
}

// GuardInfo is a guard's /info.
type GuardInfo struct {
	Service           string `json:"service"`
	Version           string `json:"version"`
	FencingEnabled    bool   `json:"fencingEnabled"`
	RailTimeoutMillis int64  `json:"railTimeoutMillis,omitempty"` // rail-proxy's
}

// Repetition is one account and one payout for each attempt; the last attempt is the one that counts.
type Repetition struct {
	Number   int       `json:"number"` // from 1
	Attempts []Attempt `json:"attempts"`
}

// Last is the attempt that counts.
func (r Repetition) Last() Attempt { return r.Attempts[len(r.Attempts)-1] }

// Attempt is one payout, one pause, one verdict.
type Attempt struct {
	Number       int         `json:"number"` // from 1
	Facts        Facts       `json:"facts"`
	Verdict      Verdict     `json:"verdict"`
	Cells        []Cell      `json:"cells"`
	Diagnoses    []Diagnosis `json:"diagnoses"` // why it is not Matched
	CaptureDir   string      `json:"captureDir"`
	OffsetMillis int64       `json:"pauseOffsetMillis"` // this attempt's
}

// Verdict is what an attempt showed.
type Verdict string

// The verdicts. An inconclusive attempt did not put the question to the guards; it is never a pass.
const (
	Matched      Verdict = "MATCHED"
	Diverged     Verdict = "DIVERGED"
	Inconclusive Verdict = "INCONCLUSIVE"
)

// Facts is everything that was read about one attempt. Times are of one machine's clock.
type Facts struct {
	AccountID   string `json:"accountId"`
	PayoutID    string `json:"payoutId"`
	AmountMinor int64  `json:"amountMinor"` // of the payout

	A Worker   `json:"workerA"`
	B Worker   `json:"workerB"`
	C []Worker `json:"contendedRuns,omitempty"` // with no pause: every run of B while A held the lock

	WindowOpenedAt time.Time `json:"windowOpenedAt"` // A's own event: past its last held-check, inside SubmitToRail
	WindowToken    int64     `json:"windowToken"`
	Freeze         *Freeze   `json:"freeze,omitempty"`
	Leases         []Lease   `json:"leases"` // of the account's lock, oldest first

	StubStartedBefore time.Time    `json:"stubStartedBefore"` // another one afterwards: its log was lost
	StubStartedAfter  time.Time    `json:"stubStartedAfter"`
	Requests          []Request    `json:"requests"`    // the rail's own log of this payout
	Submissions       []Submission `json:"submissions"` // rail-proxy's records of this payout
	Claims            []Claim      `json:"claims"`      // payment-resource's, of this payout
	Funding           []Entry      `json:"funding"`     // entries of the account that belong to no payout
	Ledger            []Entry      `json:"ledger"`      // entries of this payout
	Before            Books        `json:"before"`
	After             Books        `json:"after"`
	Refusals          []Refusal    `json:"refusals"`   // the guards' fenced_out events for this account
	Duplicates        []Duplicate  `json:"duplicates"` // rail-proxy's events of a payout presented before
	Trouble           []Diagnosis  `json:"trouble"`    // what went wrong with the experiment itself
}

// Worker is one worker process and its run of ExecutePayout.
type Worker struct {
	ProcessID  int       `json:"processId"`
	TaskQueue  string    `json:"taskQueue"`
	WorkflowID string    `json:"workflowId"`
	RunID      string    `json:"runId"`
	Token      int64     `json:"token"` // from the run's own history; 0 when it got no grant
	Outcome    string    `json:"outcome"`
	State      string    `json:"state"`
	Reason     string    `json:"reason,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
	EndedAt    time.Time `json:"endedAt"` // zero when it did not end
	Steps      []Step    `json:"steps"`   // the activities of the run, oldest first
}

// Step finds an activity of the run by its type; nil when there was none.
func (w Worker) Step(name string) *Step {
	for i := range w.Steps {
		if w.Steps[i].Name == name {
			return &w.Steps[i]
		}
	}
	return nil
}

// Step is one activity, as the history tells it.
type Step struct {
	Name        string     `json:"name"`
	ScheduledAt time.Time  `json:"scheduledAt"`
	StartedAt   *time.Time `json:"startedAt,omitempty"`
	EndedAt     *time.Time `json:"endedAt,omitempty"`
	Outcome     string     `json:"outcome,omitempty"` // of its result, such as fencedOut; or failed, timedOut
	Reason      string     `json:"reason,omitempty"`
}

// Freeze is the pause of A.
type Freeze struct {
	ProcessID int       `json:"processId"`
	State     string    `json:"state"` // of the process, read back after the signal: T is stopped
	StoppedAt time.Time `json:"stoppedAt"`
	ThawedAt  time.Time `json:"thawedAt"` // when it was told to go on; zero when it never was
}

// Lease is one grant of the account's lock, as look-ups saw it.
type Lease struct {
	Token      int64     `json:"token"`
	AcquiredAt time.Time `json:"acquiredAt"`
	ExpiresAt  time.Time `json:"expiresAt"` // the last that was seen
	Renewals   int       `json:"renewals"`  // later expiries that were seen
	EndedAt    time.Time `json:"endedAt"`   // when it was first seen to be over; zero when it was not
}

// Request is one line of the rail stub's log.
type Request struct {
	Sequence    int64     `json:"sequence"` // over all payouts
	ClientRef   string    `json:"clientRef"`
	AmountMinor int64     `json:"amountMinor"`
	Currency    string    `json:"currency"`
	Fault       string    `json:"fault"` // "none" where the rail behaved well
	ReceivedAt  time.Time `json:"receivedAt"`
	MoneyMoved  bool      `json:"moneyMoved"`
}

// Submission is one row of rail_submission. Outcome is "" while there is none.
type Submission struct {
	SubmissionID  string     `json:"submissionId"`
	Token         int64      `json:"presentedToken"`
	Outcome       string     `json:"outcome"`
	RailReference string     `json:"railReference,omitempty"`
	Guarded       bool       `json:"guarded"`
	SubmittedAt   time.Time  `json:"submittedAt"`
	ResolvedAt    *time.Time `json:"resolvedAt,omitempty"`
}

// presented reports whether the submission reached the rail, or may have.
func (s Submission) presented() bool { return s.Outcome != "FENCED" && s.Outcome != "UNSENT" }

// Claim is one row of payout_claim.
type Claim struct {
	Token     int64      `json:"token"`
	Outcome   string     `json:"outcome"`
	ClaimedAt time.Time  `json:"claimedAt"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
	EndReason string     `json:"endReason,omitempty"`
}

// Entry is one row of ledger_entry.
type Entry struct {
	ID          int64     `json:"id"`
	EntryGroup  string    `json:"entryGroup"`
	AccountID   string    `json:"accountId"`
	Direction   string    `json:"direction"`
	AmountMinor int64     `json:"amountMinor"`
	Fence       int64     `json:"fence"`
	Guarded     bool      `json:"guarded"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Books is the state of the account and the payout at one moment. SumMinor is the signed sum of all entries of the account,
// taken in the same statement as the balance.
type Books struct {
	BalanceMinor  int64  `json:"balanceMinor"`
	ReservedMinor int64  `json:"reservedMinor"`
	SumMinor      int64  `json:"sumMinor"`
	Fence         int64  `json:"fence"`            // account.fence
	RailHighest   int64  `json:"railHighestToken"` // rail_high_water; 0 when there is none
	PayoutState   string `json:"payoutState"`
}

// Refusal is one fenced_out event of a guard.
type Refusal struct {
	At        time.Time `json:"at"`
	Resource  string    `json:"resource"` // account, ledger or rail
	Presented int64     `json:"presentedToken"`
	Highest   int64     `json:"highestToken"`
}

// Duplicate is one duplicate_rail_submission_attempted event.
type Duplicate struct {
	At        time.Time `json:"at"`
	Presented int64     `json:"presentedToken"`
}

// Counter is one counter of a guard before and after the run, and the events of all attempts, which must account for it.
type Counter struct {
	Name   string `json:"name"` // as in the exposition, labels included
	Before int64  `json:"before"`
	After  int64  `json:"after"`
	Events int64  `json:"events"`
}

// Delta is how far the counter rose.
func (c Counter) Delta() int64 { return c.After - c.Before }

// Finding is one check of the invariant checker that failed.
type Finding struct {
	Invariant string `json:"invariant"` // such as INV-02
	Name      string `json:"name"`
	Sentence  string `json:"sentence"`
	Offending int64  `json:"offending"` // rows
}

// Cell is one line of the verdict table: what the mode must show, what was seen, and from where.
type Cell struct {
	Name     string `json:"name"`
	Must     string `json:"must"`
	Is       string `json:"is"`
	OK       bool   `json:"ok"`
	Evidence string `json:"evidence"`
}

// Diagnosis says why something is not as it must be.
type Diagnosis struct {
	Code     Code   `json:"code"`
	Sentence string `json:"sentence"`
}

// Code is the kind of a diagnosis.
type Code string

// Summary is the verdict over the whole run.
type Summary struct {
	Repetitions  int         `json:"repetitions"`
	Identical    int         `json:"identical"`    // whose last attempt matched
	Inconclusive int         `json:"inconclusive"` // attempts, over all repetitions
	Passed       bool        `json:"passed"`
	Line         string      `json:"line"` // such as: 20/20 on: identical; inconclusive 0
	Diagnoses    []Diagnosis `json:"diagnoses"`
}
