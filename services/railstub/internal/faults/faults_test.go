package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/stubapi"
)

func perMille(n int) *int { return &n }

// draws are the kinds that submissions of many references get, three of each.
func draws(seed uint64, reversed bool) map[string]string {
	b := New(seed, time.Second, 0)
	b.Replace(stubapi.Faults{Faults: []stubapi.Fault{{Kind: stubapi.Decline, PerMille: perMille(300)}, {Kind: stubapi.DropAfter, PerMille: perMille(500)}}})
	got := make(map[string]string)
	for range 3 {
		for i := range 200 {
			if reversed {
				i = 199 - i
			}
			ref := fmt.Sprintf("p-%d", i)
			got[ref] += string(b.Decide(ref).Kind) + " "
		}
	}
	return got
}

func TestTheSeedAloneDecidesWhoGetsAFault(t *testing.T) {
	require.Equal(t, draws(7, false), draws(7, true), "in whatever order they come")
	require.NotEqual(t, draws(7, false), draws(8, false))
}

func TestFaultsComeAboutAsOftenAsAskedFor(t *testing.T) {
	b := New(1, 0, 0)
	b.Replace(stubapi.Faults{Faults: []stubapi.Fault{{Kind: stubapi.Decline, PerMille: perMille(250)}, {ClientRef: "never", Kind: stubapi.Decline, PerMille: perMille(0)}}})
	declined := 0
	for i := range 10_000 {
		if b.Decide(fmt.Sprintf("p-%d", i)).Kind == stubapi.Decline {
			declined++
		}
		require.Equal(t, stubapi.None, b.Decide("never").Kind)
	}
	require.InDelta(t, 2500, declined, 250)
}

func TestLatencyIsTheFaultsElseTheRails(t *testing.T) {
	b := New(1, time.Second, 0)
	require.Equal(t, Decision{stubapi.None, time.Second}, b.Decide("p-1"))
	zero := int64(0)
	b.Replace(stubapi.Faults{Faults: []stubapi.Fault{{ClientRef: "p-1", Kind: stubapi.Decline}, {ClientRef: "p-2", Kind: stubapi.None, LatencyMillis: &zero}, {ClientRef: "p-3", Kind: stubapi.Hang}}})
	require.Equal(t, Decision{stubapi.Decline, time.Second}, b.Decide("p-1"))
	require.Equal(t, Decision{stubapi.None, 0}, b.Decide("p-2"))
	require.Equal(t, Decision{stubapi.Hang, time.Minute}, b.Decide("p-3"))
}

func TestThereIsABoundToFaults(t *testing.T) {
	b := New(1, 0, 0)
	all := stubapi.Faults{Faults: make([]stubapi.Fault, MaxFaults)}
	for i := range all.Faults {
		all.Faults[i] = stubapi.Fault{ClientRef: fmt.Sprintf("p-%d", i), Kind: stubapi.None}
	}
	require.Empty(t, Check(all))
	b.Replace(all)
	require.False(t, b.Add(stubapi.Fault{ClientRef: "one more", Kind: stubapi.None}))
	require.True(t, b.Add(stubapi.Fault{ClientRef: "p-1", Kind: stubapi.Decline}))
}
