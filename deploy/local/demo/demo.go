// Package demo is what the demonstration runs: its accounts, its payouts, and what must become of each.
package demo

import (
	_ "embed" // the two CSV files
	"encoding/csv"
	"fmt"
	"strings"

	"railguard/services/money"
	"railguard/services/paymentapi"
	"railguard/services/stubapi"
)

// Payouts is the file to import, as `railguard payout import` takes it.
//
//go:embed payouts.csv
var Payouts string

//go:embed accounts.csv
var accounts string

// Accounts are the accounts that the payouts are paid from, with their opening funds.
func Accounts() ([]paymentapi.CreateAccountRequest, error) {
	rows, err := csv.NewReader(strings.NewReader(accounts)).ReadAll()
	if err != nil {
		return nil, err
	}
	requests := make([]paymentapi.CreateAccountRequest, 0, len(rows)-1)
	for _, row := range rows[1:] {
		opening, err := money.Parse(row[2], money.Currency(row[1]))
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", row[0], err)
		}
		requests = append(requests, paymentapi.CreateAccountRequest{AccountID: row[0], Currency: opening.Currency, OpeningMinor: opening.Minor})
	}
	return requests, nil
}

// Expectation is what must become of a payout.
type Expectation struct {
	Outcome string // the workflow's
	State   paymentapi.PayoutState
	// Requests is how many the rail must have received.
	Requests int
	// Fault is how the rail behaves towards it; nil for well.
	Fault *stubapi.Fault
}

// HangMillis is how late the rail answers the payout that times out; RailTimeout and SubmitBudget are
// what the proxy and the worker are given, so that nobody waits long for it.
const (
	HangMillis   = 5_000
	RailTimeout  = "2s"
	SubmitBudget = "4s"
)

// Expect is what must become of the payout with this external reference.
func Expect(externalRef string) Expectation {
	hang := int64(HangMillis)
	switch externalRef {
	case "demo-0009":
		return Expectation{"failed", paymentapi.Failed, 1, &stubapi.Fault{Kind: stubapi.Decline}}
	case "demo-0018":
		return Expectation{"ambiguous", paymentapi.RailAmbiguous, 1, &stubapi.Fault{Kind: stubapi.Hang, LatencyMillis: &hang}}
	case "demo-0024": // its account does not have as much
		return Expectation{"failed", paymentapi.Failed, 0, nil}
	}
	return Expectation{"posted", paymentapi.Posted, 1, nil}
}
