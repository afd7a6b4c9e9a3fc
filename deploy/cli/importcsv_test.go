package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/money"
	"railguard/services/paymentapi"
)

const csvHeader = "external_ref,account_id,amount,currency,beneficiary_ref\n"

func TestReadCSVTakesMajorUnitsOfEveryExponent(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"plain":           csvHeader + "a,acme,10.50,EUR,b-1\nb,acme,7,JPY,b-2\nc,acme,1.234,KWD,b-3\n",
		"CRLF":            strings.ReplaceAll(csvHeader+"a,acme,10.50,EUR,b-1\nb,acme,7,JPY,b-2\nc,acme,1.234,KWD,b-3\n", "\n", "\r\n"),
		"byte order mark": "\ufeff" + csvHeader + "a,acme,10.50,EUR,b-1\nb,acme,7,JPY,b-2\nc,acme,1.234,KWD,b-3\n",
		"no last newline": csvHeader + "a,acme,10.50,EUR,b-1\nb,acme,7,JPY,b-2\nc,acme,1.234,KWD,b-3",
		"quotes":          csvHeader + "\"a\",acme,\"10.50\",EUR,b-1\nb,acme,7,JPY,b-2\nc,acme,1.234,KWD,\"b-3\"\n",
	} {
		rows, bad, err := readCSV(strings.NewReader(file))
		require.NoError(t, err, name)
		require.Empty(t, bad, name)
		request := func(ref, currency, beneficiary string, minor int64) paymentapi.CreatePayoutRequest {
			return paymentapi.CreatePayoutRequest{ExternalRef: ref, AccountID: "acme", AmountMinor: minor,
				Currency: money.Currency(currency), BeneficiaryRef: beneficiary}
		}
		require.Equal(t, []importRow{
			{2, request("a", "EUR", "b-1", 1050)}, {3, request("b", "JPY", "b-2", 7)}, {4, request("c", "KWD", "b-3", 1234)},
		}, rows, name)
	}
}

func TestReadCSVSaysWhatIsWrongWithARow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 129)
	for row, reason := range map[string]string{
		"a,acme,10.50,EUR":                  "4 fields, want 5",
		"a,acme,10.50,EUR,b,c":              "6 fields, want 5",
		",acme,10.50,EUR,b":                 "external_ref has 0 characters",
		long + ",acme,10.50,EUR,b":          "external_ref has 129 characters",
		"a,,10.50,EUR,b":                    "account_id \"\" is not",
		"a,ac me,10.50,EUR,b":               "account_id \"ac me\" is not",
		"a,acme,10.505,EUR,b":               "more than 2 decimal places of EUR",
		"a,acme,7.0,JPY,b":                  "more than 0 decimal places of JPY",
		"a,acme,0.00,EUR,b":                 "not above zero",
		"a,acme,-1,EUR,b":                   "not a decimal number",
		"a,acme,1e3,EUR,b":                  "not a decimal number",
		"a,acme,,EUR,b":                     "not a decimal number",
		"a,acme,\"1,000.00\",EUR,b":         "not a decimal number",
		"a,acme,99999999999999999999,EUR,b": "out of range",
		"a,acme,1.00,eur,b":                 "unknown currency",
		"a,acme,1.00,,b":                    "unknown currency",
		"a,acme,1.00,EUR,":                  "beneficiary_ref has 0 characters",
		"a,acme,1.00,EUR," + long + long:    "beneficiary_ref has 258 characters",
		"a,acme,1.00,EUR,b\x01":             "control character",
		"a,acme,1.00,EUR,\xff":              "not valid UTF-8",
		"a,acme, 1.00,EUR,b":                "white space",
		"\u00a0a,acme,1.00,EUR,b":           "white space",
		"a,acme,1.00,EUR,b \"quoted\"":      "bare \"",
		"first,acme,1.00,EUR,b":             "external_ref is the same as on line 2",
		"a,acme,1.00,EUR,\"never closed":    "extraneous or missing \"",
		"\"two\nlines\",acme,1.00,EUR,b":    "control character",
		fmt.Sprintf("a,%s,1.00,EUR,b", strings.Repeat("a", 65)): "is not 1 to 64 characters",
	} {
		rows, bad, err := readCSV(strings.NewReader(csvHeader + "first,acme,1.00,EUR,b\n" + row + "\n"))
		require.NoError(t, err, row)
		require.Len(t, rows, 1, row)
		require.Len(t, bad, 1, row)
		require.Equal(t, 3, bad[0].Line, row)
		require.Contains(t, bad[0].Reason, reason, row)
	}
}

func TestReadCSVReportsEveryBadRowByItsLine(t *testing.T) {
	t.Parallel()
	rows, bad, err := readCSV(strings.NewReader(csvHeader +
		"a,acme,1.00,EUR,b\n" + // line 2
		"\n" + // blank lines are no rows
		"b,acme,x,EUR,b\n" + // line 4
		"c,acme,1.00,EUR,\"b \"\" c\"\n" +
		"d,acme,1.00,EUR\n" + // line 6
		"e, acme,1.00,EUR,b\n"))
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Len(t, bad, 3)
	for i, want := range []BadRow{{Line: 4, ExternalRef: "b"}, {Line: 6, ExternalRef: "d"}, {Line: 7, ExternalRef: "e"}} {
		require.Equal(t, want, BadRow{Line: bad[i].Line, ExternalRef: bad[i].ExternalRef})
	}
}

func TestReadCSVRefusesAFileThatIsNoImport(t *testing.T) {
	t.Parallel()
	for file, reason := range map[string]string{
		"":                    "the file is empty; its first line must be external_ref,account_id,amount,currency,beneficiary_ref",
		"\ufeff":              "the file is empty",
		"\n\n":                "the file is empty",
		"a,acme,1.00,EUR,b\n": `the header is "a,acme,1.00,EUR,b"`,
		"external_ref,account_id,amount,currency\na,acme,1.00,EUR\n":                "the header is",
		"external_ref,account_id,currency,amount,beneficiary_ref\n":                 "the header is",
		"External_Ref,account_id,amount,currency,beneficiary_ref\n":                 "the header is",
		"external_ref;account_id;amount;currency;beneficiary_ref\na;b;1.00;EUR;c\n": "the header is",
		csvHeader: "a header and no rows",
	} {
		_, _, err := readCSV(strings.NewReader(file))
		var input *inputError
		require.ErrorAs(t, err, &input, file)
		require.ErrorContains(t, err, reason, file)
	}
}
