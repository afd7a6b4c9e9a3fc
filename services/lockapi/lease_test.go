package lockapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
)

const (
	key   = "payout:acc-1"
	owner = "run-1"
	token = fencing.Token(42)
	soon  = 10 * time.Second // a bound for what happens in milliseconds on an idle machine
)

// peer is a lock-server whose answers the test chooses, one after the other; the last one is repeated.
type peer struct {
	mu       sync.Mutex
	answers  []http.HandlerFunc
	requests chan *http.Request
}

func serve(t *testing.T, answers ...http.HandlerFunc) (*lockapi.Client, *peer) {
	p := &peer{answers: answers, requests: make(chan *http.Request, 1000)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests <- r
		p.next()(w, r)
	}))
	t.Cleanup(s.Close)
	client, err := lockapi.NewClient(s.URL, httpclient.Identity{})
	require.NoError(t, err)
	return client, p
}

func (p *peer) next() http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := p.answers[0]
	if len(p.answers) > 1 {
		p.answers = p.answers[1:]
	}
	return answer
}

func granting(ttl time.Duration) http.HandlerFunc { return grantingTo(token, owner, ttl) }

func grantingTo(token fencing.Token, owner string, ttl time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(lockapi.Grant{Key: key, OwnerID: owner, FencingToken: token, TTLMillis: ttl.Milliseconds()})
	}
}

func refusing(err *apierr.Error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		row, _ := apierr.Lookup(err.Code)
		w.WriteHeader(row.Status)
		_ = json.NewEncoder(w).Encode(err)
	}
}

// dropping ends the connection without an answer.
func dropping(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// after answers late.
func after(d time.Duration, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		<-time.After(d)
		then(w, r)
	}
}

func TestALeaseIsAdoptedWithOneRenewalAndKeptAliveUntilItIsClosed(t *testing.T) {
	t.Parallel()
	client, p := serve(t, granting(300*time.Millisecond))
	lease, err := client.Adopt(context.Background(), token, key, owner, 0.3)
	require.NoError(t, err)
	for range 4 {
		r := <-p.requests
		require.Equal(t, "/v1/locks/payout:acc-1/renew", r.URL.Path)
		require.Equal(t, "42", r.Header.Get(fencing.HeaderToken))
		require.Equal(t, owner, r.Header.Get(httpclient.HeaderOwnerID))
	}
	lease.Close()
	require.Eventually(t, func() bool { return lease.CheckStillHeld() != nil }, soon, 5*time.Millisecond,
		"nothing renews a lease that is closed, so its deadline passes")
	require.ErrorIs(t, lease.CheckStillHeld(), lockapi.ErrNotHeld)
}

func TestTheDeadlineIsReckonedFromTheTimeOfSending(t *testing.T) {
	t.Parallel()
	// The answer grants 10 s, of which 9.9 s are margin, and takes longer than the rest to arrive.
	client, _ := serve(t, after(150*time.Millisecond, granting(10*time.Second)))
	lease, err := client.Adopt(context.Background(), token, key, owner, 0.99)
	require.NoError(t, err)
	defer lease.Close()
	require.ErrorIs(t, lease.CheckStillHeld(), lockapi.ErrNotHeld)
}

func TestTheMarginShortensTheLease(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3*time.Second, lockapi.Margin(10*time.Second, 0.3))
	client, _ := serve(t, granting(time.Minute), refusing(apierr.New(apierr.NotLeader, "down")))
	lease, err := client.Adopt(context.Background(), token, key, owner, 0.3)
	require.NoError(t, err)
	defer lease.Close()
	require.NoError(t, lease.CheckStillHeld())
}

func TestALeaseWithoutRenewalsEnds(t *testing.T) {
	t.Parallel()
	client, p := serve(t, granting(300*time.Millisecond), refusing(apierr.New(apierr.NotLeader, "down")))
	lease, err := client.Adopt(context.Background(), token, key, owner, 0.3)
	require.NoError(t, err)
	defer lease.Close()
	require.Eventually(t, func() bool { return lease.CheckStillHeld() != nil }, soon, 5*time.Millisecond)
	require.ErrorIs(t, lease.CheckStillHeld(), lockapi.ErrNotHeld)
	for range 6 {
		<-p.requests // an unavailable lock service has not said that the lock is lost: it is asked again
	}
}

func TestARefusedRenewalEndsTheLeaseForGood(t *testing.T) {
	t.Parallel()
	client, p := serve(t, granting(6*time.Second), refusing(apierr.New(apierr.LockLost, "revoked")), granting(time.Minute))
	lease, err := client.Adopt(context.Background(), token, key, owner, 0.01)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return lease.CheckStillHeld() != nil }, soon, 5*time.Millisecond)
	require.Equal(t, apierr.LockLost, apierr.CodeOf(lease.CheckStillHeld()), "the refusal outweighs a deadline that has not passed")
	lease.Close()
	require.Len(t, p.requests, 2, "nothing is asked after LOCK_LOST")
}

func TestAdoptionWithoutAUsableAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers  []http.HandlerFunc
		requests int
		held     bool
		lost     bool
	}{
		"a lost answer is asked for once more":       {[]http.HandlerFunc{dropping, granting(time.Minute)}, 2, true, false},
		"and not twice":                              {[]http.HandlerFunc{dropping, dropping, granting(time.Minute)}, 2, false, false},
		"LOCK_LOST is final":                         {[]http.HandlerFunc{refusing(apierr.New(apierr.LockLost, "m"))}, 1, false, true},
		"a refusal of the caller is not repeated":    {[]http.HandlerFunc{refusing(apierr.New(apierr.Forbidden, "m"))}, 1, false, false},
		"an answer for another token is no lease":    {[]http.HandlerFunc{grantingTo(token+1, owner, time.Minute)}, 1, false, false},
		"an answer without a lease time is no lease": {[]http.HandlerFunc{granting(0)}, 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, p := serve(t, c.answers...)
			lease, err := client.Adopt(context.Background(), token, key, owner, 0.3)
			if c.held {
				require.NoError(t, err)
				require.NoError(t, lease.CheckStillHeld())
				lease.Close()
			} else {
				require.Error(t, err)
				if c.lost {
					require.ErrorIs(t, err, lockapi.ErrNotHeld)
				} else {
					require.NotErrorIs(t, err, lockapi.ErrNotHeld, "only the lock-server can say that a grant is lost")
				}
			}
			require.Len(t, p.requests, c.requests)
		})
	}
}

func TestALeaseWithoutATokenDoesNotExist(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, granting(time.Minute))
	require.Panics(t, func() { _, _ = client.Adopt(context.Background(), 0, key, owner, 0.3) })
}

func TestTheKeepingAliveOutlivesTheCallersContext(t *testing.T) {
	t.Parallel()
	client, p := serve(t, granting(300*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	lease, err := client.Adopt(ctx, token, key, owner, 0.3)
	require.NoError(t, err)
	defer lease.Close()
	cancel()
	for range 4 {
		<-p.requests
	}
}
