package railproxy

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
)

// together makes all submissions at once and returns the answers in their order.
func (p *proxy) together(all []submission) []answer {
	p.t.Helper()
	answers := make([]answer, len(all))
	var running sync.WaitGroup
	begin := make(chan struct{})
	for i, s := range all {
		running.Go(func() {
			<-begin
			a, err := p.try(p.t.Context(), s.call())
			if err != nil {
				p.t.Errorf("submit: %v", err)
			}
			answers[i] = a
		})
	}
	close(begin)
	running.Wait()
	return answers
}

func count(answers []answer) map[apierr.Code]int {
	counts := make(map[apierr.Code]int)
	for _, a := range answers {
		counts[a.err.Code]++
	}
	return counts
}

// With the unique index dropped this test goes red.
func TestOfManySubmissionsOfOnePayoutOneIsPresented(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]func(i int) int64{
		"the same token": func(int) int64 { return 7 },
		"rising tokens":  func(i int) int64 { return int64(i + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			rail := startRail(t, send(acknowledged))
			p := start(t, db, rail.url(), func(c *Config) { c.DBPool = 4 }) // fewer connections than submissions
			s := newSubmission(0)
			all := make([]submission, 24)
			for i := range all {
				all[i] = s.under(token(i))
			}
			counts := count(p.together(all))
			require.Equal(t, 1, counts[""], "%v", counts)
			// On a busy machine some may not get as far as being judged; they are not presented either.
			require.Equal(t, len(all), counts[""]+counts[apierr.DuplicateSubmission]+counts[apierr.FencedOut]+counts[apierr.RailUnavailable], "%v", counts)
			require.Equal(t, 1, rail.count())
			require.Equal(t, 1, rail.connections())
			presented := 0
			for _, r := range db.rows(t) {
				if r.Outcome != "FENCED" {
					presented++
				}
			}
			require.Equal(t, 1, presented)
		})
	}
}

// Different accounts share no row but the unique index.
func TestOfOnePayoutUnderManyAccountsOneIsPresented(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	s := newSubmission(1)
	all := make([]submission, 16)
	for i := range all {
		all[i] = s
		all[i].Account = "acc-" + string(rune('a'+i))
	}
	counts := count(p.together(all))
	require.Equal(t, 1, counts[""], "%v", counts)
	require.Equal(t, len(all)-1, counts[apierr.DuplicateSubmission]+counts[apierr.IdempotencyConflict]+counts[apierr.RailUnavailable], "%v", counts)
	require.Equal(t, 1, rail.count())
	require.Len(t, db.rows(t), 1)
}

// INV-01 at this guard: what is accepted for one account rises in its tokens.
func TestAcceptedTokensOfAnAccountNeverGoBack(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	db := newDatabase(t)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	all := make([]submission, 48)
	for i := range all {
		all[i] = newSubmission(random.Int64N(40) + 1)
	}
	counts := count(p.together(all))
	require.Equal(t, len(all), counts[""]+counts[apierr.FencedOut]+counts[apierr.RailUnavailable], "%v", counts)
	require.NotZero(t, counts[""])
	acked, last := 0, int64(0)
	for _, r := range db.rows(t) { // in the order of admission
		if r.Outcome == "FENCED" {
			continue
		}
		if r.Outcome == "ACKED" {
			acked++
		}
		require.Greater(t, r.Token, last)
		last = r.Token
	}
	require.Equal(t, counts[""], acked)
	require.Equal(t, acked, rail.count())
	require.Equal(t, last, db.mark(t, "acc-1"))
	require.EqualValues(t, counts[apierr.FencedOut], p.fencedOut())
}
