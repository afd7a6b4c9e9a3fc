// Package money is integer minor units with a currency. There are no floats in it.
package money

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Currency is an ISO 4217 alphabetic code, such as "EUR".
type Currency string

// Amount is a quantity of money in the minor unit of its currency: 1050 EUR is 10.50 euros, 1050 JPY is 1050 yen.
type Amount struct {
	Minor    int64
	Currency Currency
}

// Errors of this package; callers match them with errors.Is.
var (
	ErrUnknownCurrency  = errors.New("unknown currency")
	ErrCurrencyMismatch = errors.New("currencies differ")
	ErrOverflow         = errors.New("amount out of range")
	ErrMalformed        = errors.New("malformed amount")
)

// exponents gives the number of decimal digits of the minor unit of every currency that the system
// accepts. Source: ISO 4217, list one ("Minor unit"). Funds codes, metals and test codes are left out on purpose.
var exponents = func() map[Currency]int {
	byExponent := map[int]string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF " +
			"CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD " +
			"HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD " +
			"MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR " +
			"RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY " +
			"TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
		3: "BHD IQD JOD KWD LYD OMR TND",
	}
	table := make(map[Currency]int)
	for exponent, codes := range byExponent {
		for _, code := range strings.Fields(codes) {
			table[Currency(code)] = exponent
		}
	}
	return table
}()

// Exponent is the number of decimal digits of the currency's minor unit; ErrUnknownCurrency for any
// code that is not in the table, lower case included.
func (c Currency) Exponent() (int, error) {
	exponent, ok := exponents[c]
	if !ok {
		return 0, fmt.Errorf("%w: %q", ErrUnknownCurrency, string(c))
	}
	return exponent, nil
}

// Parse reads an amount in major units, such as "10.50", exactly: more digits than the currency has,
// a sign, an exponent, a thousands separator or white space is ErrMalformed; more than int64 holds is ErrOverflow.
func Parse(s string, c Currency) (Amount, error) {
	exponent, err := c.Exponent()
	if err != nil {
		return Amount{}, err
	}
	whole, fraction, hasPoint := strings.Cut(s, ".")
	if !digits(whole) || (hasPoint && !digits(fraction)) {
		return Amount{}, fmt.Errorf("%w: %q is not a decimal number such as 10.50", ErrMalformed, s)
	}
	if len(fraction) > exponent {
		return Amount{}, fmt.Errorf("%w: %q has more than %d decimal places of %s", ErrMalformed, s, exponent, c)
	}
	minor, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", exponent-len(fraction)), 10, 64)
	if err != nil {
		return Amount{}, fmt.Errorf("%w: %q %s", ErrOverflow, s, c)
	}
	return Amount{Minor: minor, Currency: c}, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// String is the amount in major units with all decimal places and the code: "10.50 EUR". An unknown
// currency is shown in minor units.
func (a Amount) String() string {
	exponent, err := a.Currency.Exponent()
	if err != nil {
		return fmt.Sprintf("%d minor units of %q", a.Minor, string(a.Currency))
	}
	sign, magnitude := "", strconv.FormatInt(a.Minor, 10)
	if a.Minor < 0 {
		sign, magnitude = "-", magnitude[1:]
	}
	if exponent == 0 {
		return sign + magnitude + " " + string(a.Currency)
	}
	if len(magnitude) <= exponent {
		magnitude = strings.Repeat("0", exponent-len(magnitude)+1) + magnitude
	}
	point := len(magnitude) - exponent
	return sign + magnitude[:point] + "." + magnitude[point:] + " " + string(a.Currency)
}

// Add returns a + b, ErrCurrencyMismatch or ErrOverflow.
func (a Amount) Add(b Amount) (Amount, error) {
	if a.Currency != b.Currency {
		return Amount{}, fmt.Errorf("%w: %s and %s", ErrCurrencyMismatch, a.Currency, b.Currency)
	}
	if (b.Minor > 0 && a.Minor > math.MaxInt64-b.Minor) || (b.Minor < 0 && a.Minor < math.MinInt64-b.Minor) {
		return Amount{}, fmt.Errorf("%w: %d + %d", ErrOverflow, a.Minor, b.Minor)
	}
	return Amount{Minor: a.Minor + b.Minor, Currency: a.Currency}, nil
}

// Sub returns a - b, ErrCurrencyMismatch or ErrOverflow.
func (a Amount) Sub(b Amount) (Amount, error) {
	if b.Minor == math.MinInt64 {
		return Amount{}, fmt.Errorf("%w: %d - %d", ErrOverflow, a.Minor, b.Minor)
	}
	return a.Add(Amount{Minor: -b.Minor, Currency: b.Currency})
}
