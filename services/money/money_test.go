package money_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/money"
)

func TestParseIsExactInEveryExponent(t *testing.T) {
	for _, c := range []struct {
		text     string
		currency money.Currency
		minor    int64
		shown    string
	}{
		{"10.50", "EUR", 1050, "10.50 EUR"},
		{"10.5", "EUR", 1050, "10.50 EUR"},
		{"10", "EUR", 1000, "10.00 EUR"},
		{"0.01", "USD", 1, "0.01 USD"},
		{"1050", "JPY", 1050, "1050 JPY"},
		{"1.234", "KWD", 1234, "1.234 KWD"},
		{"007", "EUR", 700, "7.00 EUR"},
		{"92233720368547758.07", "EUR", math.MaxInt64, "92233720368547758.07 EUR"},
	} {
		got, err := money.Parse(c.text, c.currency)
		require.NoError(t, err, c.text)
		require.Equal(t, money.Amount{Minor: c.minor, Currency: c.currency}, got)
		require.Equal(t, c.shown, got.String())
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		text     string
		currency money.Currency
		want     error
	}{
		{"10.505", "EUR", money.ErrMalformed},
		{"10.5", "JPY", money.ErrMalformed},
		{"10.", "EUR", money.ErrMalformed},
		{".5", "EUR", money.ErrMalformed},
		{"-1", "EUR", money.ErrMalformed},
		{"+1", "EUR", money.ErrMalformed},
		{"1e2", "EUR", money.ErrMalformed},
		{"1,000", "EUR", money.ErrMalformed},
		{" 1", "EUR", money.ErrMalformed},
		{"", "EUR", money.ErrMalformed},
		{"1.2.3", "EUR", money.ErrMalformed},
		{"92233720368547758.08", "EUR", money.ErrOverflow},
		{"1", "eur", money.ErrUnknownCurrency},
		{"1", "XXX", money.ErrUnknownCurrency},
		{"1", "", money.ErrUnknownCurrency},
	} {
		_, err := money.Parse(c.text, c.currency)
		require.ErrorIs(t, err, c.want, "%q %q", c.text, c.currency)
	}
}

func TestArithmeticReturnsErrorsInsteadOfWrapping(t *testing.T) {
	eur := func(n int64) money.Amount { return money.Amount{Minor: n, Currency: "EUR"} }
	sum, err := eur(1).Add(eur(2))
	require.NoError(t, err)
	require.Equal(t, eur(3), sum)
	difference, err := eur(1).Sub(eur(2))
	require.NoError(t, err)
	require.Equal(t, "-0.01 EUR", difference.String())
	for _, failing := range []func() (money.Amount, error){
		func() (money.Amount, error) { return eur(math.MaxInt64).Add(eur(1)) },
		func() (money.Amount, error) { return eur(math.MinInt64).Add(eur(-1)) },
		func() (money.Amount, error) { return eur(math.MinInt64).Sub(eur(1)) },
		func() (money.Amount, error) { return eur(0).Sub(eur(math.MinInt64)) },
	} {
		_, err := failing()
		require.ErrorIs(t, err, money.ErrOverflow)
	}
	_, err = eur(1).Add(money.Amount{Minor: 1, Currency: "USD"})
	require.ErrorIs(t, err, money.ErrCurrencyMismatch)
}
