package locktest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"railguard/services/fencing"
	"railguard/services/lockserver/internal/lock"
)

// firstAcquirersRace lets eight clients race for each of many keys that have never been granted: one wins, and the token
// that a loser's statement may have minted on the way is nobody's.
func firstAcquirersRace(t *testing.T, h Harness) {
	const keys, clients = 40, 8
	for i := range keys {
		name := fmt.Sprintf("payout:new-%d", i)
		grants := make([]*lock.Grant, clients)
		var racing errgroup.Group
		for c := range clients {
			racing.Go(func() error {
				store := []lock.Store{h.Store, h.Other}[c%2]
				g, err := store.Acquire(t.Context(), lock.Request{Key: name, OwnerID: fmt.Sprint(c), TTL: h.TTL})
				var contended *lock.ContendedError
				if errors.As(err, &contended) {
					return nil
				}
				grants[c] = &g
				return err
			})
		}
		require.NoError(t, racing.Wait())
		var winner *lock.Grant
		for _, g := range grants {
			if g != nil {
				require.Nil(t, winner, "two first acquirers were both granted %s", name)
				winner = g
			}
		}
		require.NotNil(t, winner)
		_, err := h.Store.Release(t.Context(), name, winner.Token)
		require.NoError(t, err)
		next, err := h.Store.Acquire(t.Context(), lock.Request{Key: name, OwnerID: "next", TTL: h.TTL})
		require.NoError(t, err)
		require.Greater(t, next.Token, winner.Token)
	}
}

// stress lets 16 clients fight for one key and returns the tokens in the order in which they were granted: each
// is noted while its grant lives.
func stress(t *testing.T, h Harness, whileHeld func(client, grants int, g lock.Grant) error) []fencing.Token {
	const clients, enough = 16, 2000
	deadline := time.Now().Add(8 * time.Second)
	var mu sync.Mutex
	var tokens []fencing.Token
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(tokens) >= enough || time.Now().After(deadline)
	}
	var fighting errgroup.Group
	for c := range clients {
		store := []lock.Store{h.Store, h.Other}[c%2]
		fighting.Go(func() error {
			for !done() {
				g, err := store.Acquire(t.Context(), h.request(fmt.Sprint("client-", c)))
				var contended *lock.ContendedError
				if errors.As(err, &contended) {
					continue
				}
				if err != nil {
					return err
				}
				mu.Lock()
				tokens = append(tokens, g.Token)
				n := len(tokens)
				mu.Unlock()
				if err := whileHeld(c, n, g); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, fighting.Wait())
	require.NotEmpty(t, tokens)
	t.Logf("%d grants", len(tokens))
	return tokens
}

func requireRising(t *testing.T, tokens []fencing.Token) {
	t.Helper()
	back := 0
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			back++
		}
	}
	require.Zero(t, back, "of %d grants, this many got a token not above the one before", len(tokens))
}

func tokensNeverGoBack(t *testing.T, h Harness) {
	requireRising(t, stress(t, h, func(client, _ int, g lock.Grant) error {
		store := []lock.Store{h.Store, h.Other}[client%2]
		_, err := store.Release(t.Context(), key, g.Token)
		return err
	}))
}

// tokensNeverGoBackWithRevocations ends every fifth grant by revoking it, and every fifth by asking again and releasing then.
func tokensNeverGoBackWithRevocations(t *testing.T, h Harness) {
	var mu sync.Mutex
	highest := fencing.Token(0) // floor; every grant noted after it must be above
	requireRising(t, stress(t, h, func(client, grants int, g lock.Grant) error {
		store := []lock.Store{h.Store, h.Other}[client%2]
		mu.Lock()
		defer mu.Unlock()
		if g.Token <= highest {
			return fmt.Errorf("token %d was granted after the floor %d", g.Token, highest)
		}
		switch grants % 5 {
		case 0:
			v, err := store.Revoke(t.Context(), lock.Revoke{Key: key, Operator: "op", Reason: "part of the stress", Expected: g.Token})
			highest = v.Floor
			return err
		case 1:
			again, err := store.Acquire(t.Context(), h.request(g.OwnerID))
			if err != nil {
				return err
			}
			if again.Token != g.Token {
				return fmt.Errorf("the live owner got token %d instead of its own %d", again.Token, g.Token)
			}
		}
		_, err := store.Release(t.Context(), key, g.Token)
		return err
	}))
}
