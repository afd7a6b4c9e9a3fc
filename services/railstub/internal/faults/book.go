package faults

import (
	"crypto/rand"
	"sync"
	"time"

	"railguard/services/stubapi"
)

// Book is the rail's own record, in memory: every request that arrived, and every transfer that was made of one. It is
// safe for concurrent use.
type Book struct {
	startedAt time.Time

	mu        sync.Mutex
	requests  []stubapi.Request
	transfers []stubapi.Transfer
	byRef     map[string]*entry
}

// entry holds the places of one client reference in the two lists, oldest first.
type entry struct{ requests, transfers []int }

// NewBook makes an empty book.
func NewBook() *Book {
	return &Book{startedAt: time.Now().UTC(), byRef: make(map[string]*entry)}
}

// Receive records a request, and the transfer when money moves, and returns the transfer's reference.
func (b *Book) Receive(r stubapi.SubmitRequest, kind stubapi.Kind) (railReference string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now().UTC()
	known := b.byRef[r.ClientRef]
	if known == nil {
		known = &entry{}
		b.byRef[r.ClientRef] = known
	}
	known.requests = append(known.requests, len(b.requests))
	b.requests = append(b.requests, stubapi.Request{
		Sequence: int64(len(b.requests) + 1), ClientRef: r.ClientRef, AmountMinor: r.AmountMinor, Currency: r.Currency,
		Fault: kind, MoneyMoved: MoneyMoves(kind), ReceivedAt: now,
	})
	if !MoneyMoves(kind) {
		return ""
	}
	railReference = "RAIL-" + rand.Text()
	known.transfers = append(known.transfers, len(b.transfers))
	b.transfers = append(b.transfers, stubapi.Transfer{
		RailReference: railReference, ClientRef: r.ClientRef, AmountMinor: r.AmountMinor, Currency: r.Currency, At: now,
	})
	return railReference
}

// Requests is the log, oldest first; of one client reference unless all.
func (b *Book) Requests(clientRef string, all bool) stubapi.Requests {
	b.mu.Lock()
	defer b.mu.Unlock()
	answer := stubapi.Requests{StartedAt: b.startedAt, Requests: []stubapi.Request{}}
	if all {
		answer.Requests = append(answer.Requests, b.requests...)
		return answer
	}
	if known := b.byRef[clientRef]; known != nil {
		for _, i := range known.requests {
			answer.Requests = append(answer.Requests, b.requests[i])
		}
	}
	return answer
}

// Transfers are the transfers that are at least delay old, oldest first; of one client reference unless all.
func (b *Book) Transfers(clientRef string, all bool, delay time.Duration) stubapi.Transfers {
	b.mu.Lock()
	defer b.mu.Unlock()
	answer := stubapi.Transfers{Transfers: []stubapi.Transfer{}}
	latest := time.Now().Add(-delay)
	add := func(t stubapi.Transfer) {
		if !t.At.After(latest) {
			answer.Transfers = append(answer.Transfers, t)
		}
	}
	if all {
		for _, t := range b.transfers {
			add(t)
		}
		return answer
	}
	if known := b.byRef[clientRef]; known != nil {
		for _, i := range known.transfers {
			add(b.transfers[i])
		}
	}
	return answer
}
