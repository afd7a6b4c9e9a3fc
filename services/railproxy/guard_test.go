package railproxy

import (
	"net"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
)

// under is the same submission with another token.
func (s submission) under(token int64) submission {
	s.Token = token
	return s
}

// another is another payout of the same account.
func (s submission) another(token int64) submission {
	next := newSubmission(token)
	next.Account = s.Account
	return next
}

func TestAStaleTokenIsFencedOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	first := newSubmission(10)
	requireAcked(t, p.submit(first))

	stale := first.another(9)
	a := p.submit(stale)
	requireCode(t, apierr.FencedOut, a)
	require.False(t, a.err.RetrySafe)
	id, _ := a.err.Details["submissionId"].(string)
	delete(a.err.Details, "submissionId")
	require.Equal(t, map[string]any{"presentedToken": 9.0, "highestToken": 10.0, "resourceType": "rail",
		"resourceId": "acc-1", "ownerId": "run-1"}, a.err.Details)

	require.Equal(t, "FENCED", db.outcomes(t, stale.Payout))
	var recorded string
	require.NoError(t, db.pool.QueryRow(t.Context(), `SELECT submission_id::text FROM rail_submission WHERE outcome = 'FENCED'`).Scan(&recorded))
	require.Equal(t, recorded, id)
	require.EqualValues(t, 10, db.mark(t, "acc-1"))
	require.Equal(t, 1, rail.connections())
	require.EqualValues(t, 1, p.fencedOut())
	require.EqualValues(t, 1, p.submissions("fenced"))
	require.Zero(t, p.duplicates(), "the payout was never presented")
}

// With <= for < in the mark's statement this test goes red.
func TestAnEqualTokenWithAnotherPayoutIsFencedOut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	first := newSubmission(10)
	requireAcked(t, p.submit(first))
	second := first.another(10)
	requireCode(t, apierr.FencedOut, p.submit(second))
	require.Equal(t, "FENCED", db.outcomes(t, second.Payout))
	require.Equal(t, 1, rail.count())
	require.EqualValues(t, 1, p.fencedOut())
	require.Zero(t, p.duplicates())

	requireAcked(t, p.submit(second.under(11)))
	require.EqualValues(t, 11, db.mark(t, "acc-1"))
}

func TestAnEqualTokenWithTheSamePayoutIsADuplicate(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	s := newSubmission(10)
	requireAcked(t, p.submit(s))
	a := p.submit(s)
	requireCode(t, apierr.DuplicateSubmission, a)
	require.Equal(t, "ACKED", a.err.Details["outcome"])
	require.Equal(t, "RAIL-1", a.err.Details["railReference"])
	require.Equal(t, "ACKED", db.outcomes(t, s.Payout), "nothing was written")
	require.Zero(t, p.fencedOut())
	require.EqualValues(t, 1, p.duplicates())
	require.Equal(t, 1, rail.count())

	// Once a newer token was accepted, the repetition is stale, and one of a payout that was presented.
	requireAcked(t, p.submit(s.another(11)))
	requireCode(t, apierr.FencedOut, p.submit(s))
	require.EqualValues(t, 1, p.fencedOut())
	require.EqualValues(t, 2, p.duplicates())
	require.Equal(t, "ACKED FENCED", db.outcomes(t, s.Payout))
	require.Equal(t, 2, rail.count())
}

// With the unique index dropped this test goes red.
func TestAPresentedPayoutIsNeverPresentedAgainUnderANewerToken(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	hold := newHeld()
	rail := startRail(t, hold.answer(send(acknowledged)))
	p := start(t, db, rail.url(), nil)
	t.Cleanup(hold.release)
	s := newSubmission(10)
	answered := make(chan answer, 1)
	go func() {
		a, err := p.try(t.Context(), s.call())
		if err != nil {
			t.Errorf("submit: %v", err)
		}
		answered <- a
	}()
	<-hold.arrived

	// Its outcome is not known yet: that counts as presented.
	a := p.submit(s.under(11))
	requireCode(t, apierr.DuplicateSubmission, a)
	require.NotContains(t, a.err.Details, "outcome")
	require.EqualValues(t, 10, a.err.Details["presentedToken"])
	require.Equal(t, "none", db.outcomes(t, s.Payout))
	hold.release()
	requireAcked(t, <-answered)

	requireCode(t, apierr.DuplicateSubmission, p.submit(s.under(12)))
	require.Equal(t, "ACKED", db.outcomes(t, s.Payout))
	require.EqualValues(t, 10, db.mark(t, "acc-1"), "a refused token leaves no mark")
	require.EqualValues(t, 2, p.duplicates())
	require.Equal(t, 1, rail.count())
	require.Equal(t, 1, rail.connections())
}

// With the intent committed after the call this test goes red.
func TestTheIntentIsCommittedBeforeTheRailIsCalled(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	seen := make(chan string, 1)
	rail := startRail(t, func(conn net.Conn, nth int) bool {
		var found int
		err := db.pool.QueryRow(t.Context(), `SELECT count(*) FROM rail_submission s JOIN rail_high_water w USING (account_id)
			WHERE outcome IS NULL AND resolved_at IS NULL AND guarded AND presented_token = highest_token`).Scan(&found)
		switch {
		case err != nil:
			seen <- err.Error()
		case found != 1:
			seen <- "no intent"
		default:
			seen <- "intent"
		}
		return send(acknowledged)(conn, nth)
	})
	p := start(t, db, rail.url(), nil)
	requireAcked(t, p.submit(newSubmission(10)))
	require.Equal(t, "intent", <-seen)
}

func TestTheMarksOfAccountsAreIndependent(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	p := start(t, db, startRail(t, send(acknowledged)).url(), nil)
	requireAcked(t, p.submit(newSubmission(10)))
	other := newSubmission(3)
	other.Account = "acc-2"
	requireAcked(t, p.submit(other))
	require.EqualValues(t, 10, db.mark(t, "acc-1"))
	require.EqualValues(t, 3, db.mark(t, "acc-2"))
}

func TestSomethingElseUnderThePayoutOrTheKeyIsAConflict(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*submission){
		"another key":                         func(s *submission) { s.Key = "regenerated" },
		"another amount":                      func(s *submission) { s.Amount++ },
		"another account":                     func(s *submission) { s.Account = "acc-2" },
		"another payout under the same key":   func(s *submission) { s.Payout = uuid.NewString() },
		"another key, at a token seen before": func(s *submission) { s.Key, s.Token = "regenerated", 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			rail := startRail(t, send(acknowledged))
			p := start(t, db, rail.url(), nil)
			first := newSubmission(10)
			requireAcked(t, p.submit(first))

			changed := first.under(11)
			change(&changed)
			a := p.submit(changed)
			requireCode(t, apierr.IdempotencyConflict, a)
			require.False(t, a.err.RetrySafe)
			require.Len(t, db.rows(t), 1, "nothing was written")
			require.EqualValues(t, 10, db.mark(t, "acc-1"))
			require.Zero(t, db.mark(t, "acc-2"))
			require.Equal(t, 1, rail.connections())
			if changed.Payout == first.Payout {
				require.EqualValues(t, 1, p.duplicates(), "an attempt on a payout that was presented")
			} else {
				require.Zero(t, p.duplicates())
			}
		})
	}
}

// A wrong key must not hide that a token is stale, and a stale caller must not leave anything behind that
// stops the rightful one.
func TestTheFenceIsJudgedBeforeTheKey(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	requireAcked(t, p.submit(newSubmission(10)))

	rightful := newSubmission(11)
	zombie := rightful.under(9)
	zombie.Key, zombie.Amount = "made-up", 1
	requireCode(t, apierr.FencedOut, p.submit(zombie))
	requireAcked(t, p.submit(rightful))
	zombie.Token = 10
	requireCode(t, apierr.FencedOut, p.submit(zombie))
	require.Equal(t, "FENCED ACKED FENCED", db.outcomes(t, rightful.Payout))
	require.EqualValues(t, 2, p.fencedOut())
	require.EqualValues(t, 1, p.duplicates(), "only the second time had the payout been presented")
}

func TestARaisedFenceStopsWhatIsNotAboveIt(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	s := newSubmission(20)
	require.Equal(t, 200, p.raise("acc-1", 20).status)
	a := p.submit(s)
	requireCode(t, apierr.FencedOut, a)
	require.EqualValues(t, 20, a.err.Details["highestToken"])
	requireAcked(t, p.submit(s.under(21)))
	require.Equal(t, 1, rail.count())
}

func TestWithTheKillSwitchOffNothingIsJudged(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	off := start(t, db, rail.url(), func(c *Config) { c.FencingEnabled = false })
	s := newSubmission(10)
	requireAcked(t, off.submit(s))
	requireAcked(t, off.submit(s.under(9)))
	requireAcked(t, off.submit(s.under(12)))
	requireAcked(t, off.submit(s.another(11)))
	require.Equal(t, 4, rail.count())
	require.EqualValues(t, 12, db.mark(t, "acc-1"), "the maximum seen")
	for _, r := range db.rows(t) {
		require.False(t, r.Guarded)
		require.Equal(t, "ACKED", r.Outcome)
	}
	require.Zero(t, off.fencedOut())
	require.Zero(t, off.duplicates())
	require.Zero(t, off.metric("fencing_enabled", "guard", "rail"))

	// Back on, a payout that was presented unguarded is a presented payout.
	on := start(t, db, rail.url(), nil)
	requireCode(t, apierr.DuplicateSubmission, on.submit(s.under(13)))
	requireCode(t, apierr.FencedOut, on.submit(s.under(11)))
	require.EqualValues(t, 2, on.duplicates())
	require.EqualValues(t, 1, on.metric("fencing_enabled", "guard", "rail"))
	require.Equal(t, 4, rail.count())
}
