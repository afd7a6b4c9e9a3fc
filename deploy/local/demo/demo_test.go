package demo_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local/demo"
	"railguard/services/money"
	"railguard/services/paymentapi"
)

func TestTheFilesHoldWhatTheDemonstrationPromises(t *testing.T) {
	accounts, err := demo.Accounts()
	require.NoError(t, err)
	require.Len(t, accounts, 8)
	funds, exponents := map[string]int64{}, map[money.Currency]int{}
	for _, a := range accounts {
		funds[a.AccountID] = a.OpeningMinor
		exponents[a.Currency], err = a.Currency.Exponent()
		require.NoError(t, err)
	}
	require.Len(t, exponents, 3)
	require.Contains(t, exponents, money.Currency("JPY"))
	require.Zero(t, exponents["JPY"])

	rows, err := csv.NewReader(strings.NewReader(demo.Payouts)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+30)
	states := map[paymentapi.PayoutState]int{}
	asked := map[string]int64{}
	unfunded := ""
	for _, row := range rows[1:] {
		amount, err := money.Parse(row[2], money.Currency(row[3]))
		require.NoError(t, err)
		want := demo.Expect(row[0])
		states[want.State]++
		if want.Requests == 0 {
			unfunded = row[0]
			require.Greater(t, amount.Minor, funds[row[1]])
			continue
		}
		asked[row[1]] += amount.Minor
	}
	require.Equal(t, map[paymentapi.PayoutState]int{paymentapi.Posted: 27, paymentapi.Failed: 2, paymentapi.RailAmbiguous: 1}, states)
	require.NotEmpty(t, unfunded)
	require.Len(t, asked, 8)
	for account, sum := range asked {
		require.LessOrEqual(t, sum, funds[account], "%s can pay all the others", account)
	}
}
