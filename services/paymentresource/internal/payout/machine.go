// Package payout is what all operations on a payout share: the state machine, and the reading that says why
// a write was refused.
package payout

import "railguard/services/paymentapi"

// Event is what moves a payout.
type Event string

// The events.
const (
	Claim        Event = "claim"        // under a token, funds available; or a recovery
	FundsShort   Event = "funds short"  // claim under a token, funds short
	Cancel       Event = "cancel"       // an operator, with a reason
	Submitted    Event = "submitted"    // the rail outcome is about to be recorded
	Acknowledged Event = "acknowledged" // the rail took it
	Declined     Event = "declined"     // the rail said no
	Unknown      Event = "unknown"      // nobody knows
	Post         Event = "post"         // the ledger is posted
	Settled      Event = "settled"      // resolution, with evidence and the rail's reference
	Absent       Event = "absent"       // resolution, with evidence
	Abandoned    Event = "abandoned"    // resolution by a person
)

// Move is one row of the state machine.
type Move struct {
	From  paymentapi.PayoutState
	Event Event
	To    paymentapi.PayoutState
}

// Table is the whole state machine. The database holds the same table in a trigger. A move that is
// not here does not exist: POSTED, FAILED and ABANDONED have no way out (INV-08).
var Table = [...]Move{
	{paymentapi.Pending, Claim, paymentapi.Claimed},
	{paymentapi.Pending, FundsShort, paymentapi.Failed},
	{paymentapi.Pending, Cancel, paymentapi.Abandoned},
	{paymentapi.Claimed, Claim, paymentapi.Claimed},
	{paymentapi.Claimed, Submitted, paymentapi.RailSubmitted},
	{paymentapi.RailSubmitted, Acknowledged, paymentapi.RailAcked},
	{paymentapi.RailSubmitted, Declined, paymentapi.Failed},
	{paymentapi.RailSubmitted, Unknown, paymentapi.RailAmbiguous},
	{paymentapi.RailAcked, Claim, paymentapi.RailAcked},
	{paymentapi.RailAcked, Post, paymentapi.Posted},
	{paymentapi.RailAmbiguous, Settled, paymentapi.RailAcked},
	{paymentapi.RailAmbiguous, Absent, paymentapi.Failed},
	{paymentapi.RailAmbiguous, Abandoned, paymentapi.Abandoned},
}

// Next is where an event takes a payout, and false when the state does not take the event.
func Next(from paymentapi.PayoutState, event Event) (paymentapi.PayoutState, bool) {
	for _, move := range Table {
		if move.From == from && move.Event == event {
			return move.To, true
		}
	}
	return "", false
}

// Only is the move of an event that happens in one state alone; it panics for any other event, which is
// a programming error.
func Only(event Event) Move {
	var found []Move
	for _, move := range Table {
		if move.Event == event {
			found = append(found, move)
		}
	}
	if len(found) != 1 {
		panic("payout: event " + string(event) + " does not have exactly one move")
	}
	return found[0]
}
