// Package faults decides how the rail-stub behaves towards each submission.
package faults

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"railguard/services/stubapi"
)

const (
	// MaxDelay bounds every latency and delay.
	MaxDelay = 10 * time.Minute
	// MaxFaults bounds how many behaviours are in force.
	MaxFaults = 10_000

	maxClientRef = 128
	everyTime    = 1000
	hangFor      = time.Minute
)

// Decision is how one submission is treated.
type Decision struct {
	Kind    stubapi.Kind
	Latency time.Duration // from the request's arrival to its answer
}

// MoneyMoves reports whether the rail makes a transfer of a submission that it treats in this way.
func MoneyMoves(k stubapi.Kind) bool {
	switch k {
	case stubapi.Decline, stubapi.DropBefore, stubapi.UnexpectedStatus, stubapi.InvalidRequest:
		return false
	}
	return true
}

// Behaviour is what is in force. It is safe for concurrent use.
type Behaviour struct {
	seed        uint64
	latency     time.Duration
	lookupDelay time.Duration

	mu      sync.Mutex
	inForce stubapi.Faults
	byRef   map[string][]stubapi.Fault // those of "" are for every submission
	drawn   map[string]uint64          // submissions so far, by client reference
}

// New makes a rail that behaves well, after the latency.
func New(seed uint64, latency, lookupDelay time.Duration) *Behaviour {
	return &Behaviour{seed: seed, latency: latency, lookupDelay: lookupDelay,
		inForce: stubapi.Faults{Faults: []stubapi.Fault{}}, byRef: map[string][]stubapi.Fault{}, drawn: map[string]uint64{}}
}

// Check says what is wrong with behaviours, by field; nothing for none.
func Check(f stubapi.Faults) map[string]string {
	wrong := make(map[string]string)
	if f.Faults == nil {
		wrong["faults"] = "want a list, which may be empty"
	}
	if len(f.Faults) > MaxFaults {
		wrong["faults"] = fmt.Sprintf("want at most %d", MaxFaults)
		return wrong
	}
	checkDelay(wrong, "lookupDelayMillis", f.LookupDelayMillis)
	for i, one := range f.Faults {
		checkOne(wrong, fmt.Sprintf("faults[%d].", i), one)
	}
	return wrong
}

// CheckOne says what is wrong with one behaviour, by field.
func CheckOne(f stubapi.Fault) map[string]string {
	wrong := make(map[string]string)
	checkOne(wrong, "", f)
	return wrong
}

func checkOne(wrong map[string]string, prefix string, f stubapi.Fault) {
	switch f.Kind {
	case stubapi.None, stubapi.Decline, stubapi.ServerError, stubapi.DropBefore, stubapi.DropAfter, stubapi.MalformedAck,
		stubapi.TruncatedAck, stubapi.DoubleAck, stubapi.UnexpectedStatus, stubapi.Hang:
	default:
		wrong[prefix+"kind"] = "not a kind of fault"
	}
	if len(f.ClientRef) > maxClientRef {
		wrong[prefix+"clientRef"] = fmt.Sprintf("want at most %d bytes", maxClientRef)
	}
	checkDelay(wrong, prefix+"latencyMillis", f.LatencyMillis)
	if f.PerMille != nil && (*f.PerMille < 0 || *f.PerMille > everyTime) {
		wrong[prefix+"perMille"] = "want 0 to 1000"
	}
}

func checkDelay(wrong map[string]string, field string, millis *int64) {
	if millis != nil && (*millis < 0 || *millis > MaxDelay.Milliseconds()) {
		wrong[field] = fmt.Sprintf("want 0 to %d", MaxDelay.Milliseconds())
	}
}

// Replace puts these behaviours in the place of all others. They were checked.
func (b *Behaviour) Replace(f stubapi.Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inForce = stubapi.Faults{Faults: append([]stubapi.Fault{}, f.Faults...), LookupDelayMillis: f.LookupDelayMillis}
	b.index()
}

// Add adds one behaviour in the place of those of the same client reference. It was checked; false says
// that there are too many.
func (b *Behaviour) Add(f stubapi.Fault) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := make([]stubapi.Fault, 0, len(b.inForce.Faults)+1)
	for _, one := range b.inForce.Faults {
		if one.ClientRef != f.ClientRef {
			kept = append(kept, one)
		}
	}
	if len(kept) == MaxFaults {
		return false
	}
	kept = append(kept, f)
	b.inForce.Faults = kept
	b.index()
	return true
}

func (b *Behaviour) index() {
	b.byRef = make(map[string][]stubapi.Fault)
	for _, f := range b.inForce.Faults {
		b.byRef[f.ClientRef] = append(b.byRef[f.ClientRef], f)
	}
}

// InForce returns the behaviours in force.
func (b *Behaviour) InForce() stubapi.Faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return stubapi.Faults{Faults: append([]stubapi.Fault{}, b.inForce.Faults...), LookupDelayMillis: b.inForce.LookupDelayMillis}
}

// LookupDelay is how late a transfer shows in the look-up.
func (b *Behaviour) LookupDelay() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inForce.LookupDelayMillis != nil {
		return time.Duration(*b.inForce.LookupDelayMillis) * time.Millisecond
	}
	return b.lookupDelay
}

// Decide says how the next submission of a client reference is treated. Where a reference has behaviours of its
// own, the general ones do not apply to it. The first that is drawn wins. The draw depends on the
// seed, the reference and how many submissions of it came before, so that no interleaving changes it.
func (b *Behaviour) Decide(clientRef string) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	nth := b.drawn[clientRef]
	b.drawn[clientRef] = nth + 1
	applicable, own := b.byRef[clientRef]
	if !own {
		applicable = b.byRef[""]
	}
	draw := rand.New(rand.NewPCG(b.seed, hash(clientRef)^nth))
	for _, f := range applicable {
		if f.PerMille == nil || draw.IntN(everyTime) < *f.PerMille {
			return b.decision(f)
		}
	}
	return Decision{Kind: stubapi.None, Latency: b.latency}
}

func (b *Behaviour) decision(f stubapi.Fault) Decision {
	switch {
	case f.LatencyMillis != nil:
		return Decision{f.Kind, time.Duration(*f.LatencyMillis) * time.Millisecond}
	case f.Kind == stubapi.Hang:
		return Decision{f.Kind, hangFor}
	}
	return Decision{f.Kind, b.latency}
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}
