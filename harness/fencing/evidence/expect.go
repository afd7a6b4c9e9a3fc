package evidence

// Expectation is what an attempt with a pause must show in one mode.
type Expectation struct {
	RailRequests    int    // that the rail received
	LedgerPairs     int    // debit and credit of the payout
	BalanceIsSum    bool   // balance = signed sum of the account's entries
	StaleLast       bool   // account.fence = tA < tB: the stale token was applied last
	RailRefused     bool   // rail-proxy answered FENCED_OUT to tA, once
	AccountRefused  bool   // payment-resource answered FENCED_OUT to tA, at least once, and wrote nothing
	DuplicateEvents int    // rail-proxy saw a payout that had been presented before
	OutcomeA        string // of A's run
	OutcomeB        string // of B's run
}

// Expect is the table of the experiment: what a pause must show in each mode.
func Expect(m Mode) Expectation {
	switch m {
	case Off:
		return Expectation{RailRequests: 2, LedgerPairs: 2, StaleLast: true, OutcomeA: "posted", OutcomeB: "posted"}
	case RailOnly:
		return Expectation{RailRequests: 1, LedgerPairs: 1, BalanceIsSum: true, RailRefused: true, DuplicateEvents: 1, OutcomeA: "fenced", OutcomeB: "posted"}
	case AccountOnly:
		return Expectation{RailRequests: 2, LedgerPairs: 1, BalanceIsSum: true, AccountRefused: true, OutcomeA: "fenced", OutcomeB: "posted"}
	}
	return Expectation{RailRequests: 1, LedgerPairs: 1, BalanceIsSum: true, RailRefused: true, AccountRefused: true, DuplicateEvents: 1,
		OutcomeA: "fenced", OutcomeB: "posted"}
}

// The kinds of diagnosis.
const (
	// The experiment did not put the question: the attempt is inconclusive.
	NeverReached   Code = "A_NEVER_REACHED_THE_RAIL_GUARD"
	PausedTooEarly Code = "PAUSED_TOO_EARLY"
	PausedTooLate  Code = "PAUSED_TOO_LATE"
	LapsedBefore   Code = "LEASE_LAPSED_BEFORE_THE_PAUSE"
	AttemptEnded   Code = "ATTEMPT_ENDED_BEFORE_THE_THAW"
	BDidNotFinish  Code = "B_DID_NOT_FINISH"
	GrantNotSeen   Code = "GRANT_NOT_SEEN"

	// The experiment is at fault: nothing that it shows counts.
	WrongProcess   Code = "WRONG_PROCESS_PAUSED"
	LeaseKept      Code = "LEASE_DID_NOT_LAPSE"
	RailLogLost    Code = "RAIL_LOG_LOST"
	RailLogDiffers Code = "RAIL_LOG_DISAGREES_WITH_RAIL_PROXY"
	SwitchWrong    Code = "SWITCH_IN_THE_OTHER_POSITION"
	MovedOnce      Code = "OFF_DID_NOT_CORRUPT"

	// The system did not show what the mode must show.
	NotByTheFence   Code = "REFUSED_BUT_NOT_BY_THE_FENCE"
	GuardSilent     Code = "GUARD_DID_NOT_REFUSE"
	GuardRefused    Code = "GUARD_REFUSED_WHILE_OFF"
	TokensNotRising Code = "TOKENS_DID_NOT_RISE"
	CellDiffers     Code = "NOT_AS_THE_TABLE_SAYS"
	CountersDiffer  Code = "COUNTERS_DISAGREE_WITH_EVENTS"
	BooksDiffer     Code = "INVARIANTS_NOT_AS_THE_MODE_SAYS"
)

// inconclusive are the codes that make an attempt inconclusive, as opposed to wrong.
var inconclusive = map[Code]bool{NeverReached: true, PausedTooEarly: true, PausedTooLate: true, LapsedBefore: true, AttemptEnded: true, BDidNotFinish: true, GrantNotSeen: true}
