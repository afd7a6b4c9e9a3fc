// Package locktest is the suite that every lock backend passes. It knows a backend by lock.Store alone, and by a Harness that lets
// time pass and breaks what lies between the server and the backend.
package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/fencing"
	"railguard/services/lockserver/internal/lock"
)

// Harness is one fresh backend, seen by two servers.
type Harness struct {
	// Store is the backend as one server sees it, Other as another one does.
	Store, Other lock.Store
	// TTL is a lease long enough that nothing lapses unless Pass is called.
	TTL time.Duration
	// Pass lets this much time go by on the backend's clock; a lease that should have lapsed by then, has.
	Pass func(time.Duration)
	// LoseAnswers lets the next n changes that are sent through Store take effect, and loses their answers.
	LoseAnswers func(n int)
	// Cut makes the backend unreachable for Store, Mend reachable again.
	Cut, Mend func()
}

// Run runs the suite. start makes a fresh backend for each test, and tears it down with the test.
func Run(t *testing.T, start func(t *testing.T) Harness) {
	for name, test := range map[string]func(t *testing.T, h Harness){
		"FirstGrant":                              firstGrant,
		"AnotherOwnerIsContended":                 anotherOwnerIsContended,
		"TakeoverOfALapsedGrantMintsAHigherToken": takeoverMints,
		"GrantAfterReleaseMintsAHigherToken":      grantAfterReleaseMints,
		"SameOwnerGetsTheSameTokenAndALaterLease": sameOwnerReplay,
		"SameOwnerAfterLapseGetsANewToken":        sameOwnerAfterLapse,
		"RenewUpToTheEdgeOfExpiry":                renewAtTheEdge,
		"RenewAfterLapseIsLost":                   renewAfterLapse,
		"RenewNeverShortens":                      renewNeverShortens,
		"RenewAndReleaseMatchKeyAndToken":         matchKeyAndToken,
		"ReleaseIsCompareAndFree":                 releaseIsCompareAndFree,
		"ReleaseAfterLapseIsLost":                 releaseAfterLapse,
		"UndoFreesWhatNobodyWasTold":              undoFrees,
		"UndoLeavesWhatTheOwnerAskedForAgain":     undoLeaves,
		"RevokeMintsAFloor":                       revokeMintsAFloor,
		"RevokeComparesTheExpectedToken":          revokeCompares,
		"RevokeOfAFreeKey":                        revokeFreeKey,
		"AdvanceLiftsEveryLaterToken":             advanceLifts,
		"AdvanceNeverLowers":                      advanceNeverLowers,
		"AdvanceLeavesLiveGrantsAlone":            advanceLeavesLiveGrants,
		"SweepReportsWhatLapsedOnce":              sweepReports,
		"GetTellsHeldFromFree":                    getTells,
		"TokensRiseOverAllKeysAndServers":         tokensRise,

		"SessionLivesFromHeartbeatToHeartbeat":   sessionHeartbeat,
		"SessionUnknownAndExpiredAreToldApart":   sessionErrors,
		"SessionEndReleasesItsLocks":             sessionEnd,
		"SessionLapseFreesItsLocks":              sessionLapse,
		"SessionKeptAliveKeepsItsLocks":          sessionKeepsLocks,
		"AcquireInADeadSessionIsRefused":         acquireInDeadSession,
		"SessionsOfOthersAreUnknown":             sessionOfOthers,
		"EndedSessionFreesNothingGrantedSince":   endedSessionFreesNothingNewer,
		"ReplayOutsideTheSessionOutlivesSession": replayLeavesSession,

		"FirstAcquirersOfANewKey":                  firstAcquirersRace,
		"SixteenClientsOneKeyTokensNeverGoBack":    tokensNeverGoBack,
		"SixteenClientsOneKeyLapsesAndRevocations": tokensNeverGoBackWithRevocations,

		"WaitersAreServedInOrder":                 waitersInOrder,
		"WaiterIsServedWhenTheLeaseLapses":        waiterServedOnLapse,
		"WaiterOfAnotherServerIsServed":           waiterOfAnotherServer,
		"WaiterRunsOutOfPatience":                 waiterTimesOut,
		"WaiterThatDiesIsDropped":                 waiterDies,
		"GrantOfADeadCallerIsUndone":              grantOfDeadCaller,
		"GrantThatWasThereBeforeADeadCallerStays": deadCallerFoundAGrant,
		"DeadCallerWhoseOwnerAskedAgainKeepsIt":   deadCallerAskedAgain,
		"HolderNeedNotWaitBehindOthers":           holderNeedNotWait,
		"BothRequestsOfAnOwnerGetTheToken":        bothRequestsOfAnOwner,
		"WaitersAreBounded":                       waitersAreBounded,
		"ClosingSendsWaitersAway":                 closingSendsAway,

		"LostAnswerToAcquire":  lostAnswerToAcquire,
		"LostAnswersToAcquire": lostAnswersToAcquire,
		"LostAnswerToRenew":    lostAnswerToRenew,
		"LostAnswerToRelease":  lostAnswerToRelease,
		"LostAnswerToRevoke":   lostAnswerToRevoke,
		"UnreachableBackend":   unreachable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

const key = "payout:acct-1"

func (h Harness) request(owner string) lock.Request {
	return lock.Request{Key: key, OwnerID: owner, TTL: h.TTL}
}

// acquire grants the key at once, or fails the test.
func (h Harness) acquire(t *testing.T, owner string) lock.Grant {
	t.Helper()
	g, err := h.Store.Acquire(t.Context(), h.request(owner))
	require.NoError(t, err)
	require.True(t, g.Token.Valid())
	return g
}

// contended fails the test unless owner is refused the key because holder has it.
func (h Harness) contended(t *testing.T, owner, holder string) {
	t.Helper()
	_, err := h.Store.Acquire(t.Context(), h.request(owner))
	var contended *lock.ContendedError
	require.ErrorAs(t, err, &contended)
	require.NotErrorIs(t, err, lock.ErrUnavailable)
	require.Equal(t, holder, contended.HolderOwnerID)
	require.False(t, contended.ExpiresAt.IsZero())
}

// lost fails the test unless the token can neither renew nor release the key.
func (h Harness) lost(t *testing.T, token fencing.Token) {
	t.Helper()
	_, err := h.Store.Renew(t.Context(), key, token, h.TTL)
	require.ErrorIs(t, err, lock.ErrLost)
	require.NotErrorIs(t, err, lock.ErrUnavailable)
	_, err = h.Store.Release(t.Context(), key, token)
	require.ErrorIs(t, err, lock.ErrLost)
	require.NotErrorIs(t, err, lock.ErrUnavailable)
}

// lapse lets the time of one lease go by.
func (h Harness) lapse() { h.Pass(h.TTL + time.Millisecond) }

// patience bounds what a test waits for; nothing that works comes near it.
const patience = 20 * time.Second

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, patience, 2*time.Millisecond, what)
}
