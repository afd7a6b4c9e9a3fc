package cli

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"railguard/services/httpserver"
	"railguard/services/money"
	"railguard/services/paymentapi"
)

// importHeader is the first line of an import file.
var importHeader = []string{"external_ref", "account_id", "amount", "currency", "beneficiary_ref"}

// The bounds of one import file.
const (
	maxImportRows     = 1_000_000
	maxExternalRef    = 128 // in characters
	maxBeneficiaryRef = 256
)

// BadRow is a row that cannot be imported, by its line in the file, and why.
type BadRow struct {
	Line        int    `json:"line"`
	ExternalRef string `json:"externalRef,omitempty"`
	Reason      string `json:"reason"`
}

// importRow is a row that can.
type importRow struct {
	line    int
	request paymentapi.CreatePayoutRequest
}

// readCSV reads a whole import file: RFC 4180, UTF-8 with or without a byte order mark, either line
// ending, amounts in major units. What is wrong with the file itself is an error; what is wrong with a row is a BadRow.
func readCSV(r io.Reader) (rows []importRow, bad []BadRow, err error) {
	buffered := bufio.NewReader(r)
	if mark, _ := buffered.Peek(3); string(mark) == "\ufeff" {
		_, _ = buffered.Discard(len(mark)) // they were peeked
	}
	records := csv.NewReader(buffered)
	records.FieldsPerRecord = -1 // counted below, to say so with the line
	if err := checkHeader(records); err != nil {
		return nil, nil, err
	}
	bad = []BadRow{} // an empty list in JSON
	firstLine := make(map[string]int)
	for {
		record, err := records.Read()
		var malformed *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			if len(rows)+len(bad) == 0 {
				return nil, nil, badInput("the file has a header and no rows")
			}
			return rows, bad, nil
		case errors.As(err, &malformed):
			bad = append(bad, BadRow{Line: malformed.StartLine, Reason: malformed.Err.Error()})
			continue
		case err != nil:
			return nil, nil, err
		}
		if len(rows)+len(bad) == maxImportRows {
			return nil, nil, badInput("the file has more than %d rows; split it", maxImportRows)
		}
		line, _ := records.FieldPos(0)
		request, reason := parseRow(record)
		if before, again := firstLine[request.ExternalRef]; again && reason == "" {
			reason = fmt.Sprintf("external_ref is the same as on line %d", before)
		}
		if reason != "" {
			bad = append(bad, BadRow{Line: line, ExternalRef: request.ExternalRef, Reason: reason})
			continue
		}
		firstLine[request.ExternalRef] = line
		rows = append(rows, importRow{line, request})
	}
}

func checkHeader(records *csv.Reader) error {
	header, err := records.Read()
	want := strings.Join(importHeader, ",")
	if errors.Is(err, io.EOF) {
		return badInput("the file is empty; its first line must be %s", want)
	}
	if err != nil {
		return badInput("the header, which must be %s: %w", want, err)
	}
	if !slices.Equal(header, importHeader) {
		return badInput("the header is %q; it must be %s", strings.Join(header, ","), want)
	}
	return nil
}

// parseRow reads one record; the reason says why it is bad, "" when it is not.
func parseRow(record []string) (request paymentapi.CreatePayoutRequest, reason string) {
	if utf8.ValidString(record[0]) { // first, so that a bad row is reported by it too
		request.ExternalRef = record[0]
	}
	if len(record) != len(importHeader) {
		return request, fmt.Sprintf("%d fields, want %d (%s)", len(record), len(importHeader), strings.Join(importHeader, ","))
	}
	for i, field := range record {
		if !utf8.ValidString(field) {
			return request, importHeader[i] + " is not valid UTF-8"
		}
		if field != strings.TrimSpace(field) {
			return request, fmt.Sprintf("%s %q begins or ends with white space", importHeader[i], field)
		}
	}
	request = paymentapi.CreatePayoutRequest{
		ExternalRef:    record[0],
		AccountID:      record[1],
		Currency:       money.Currency(record[3]),
		BeneficiaryRef: record[4],
	}
	if reason := refReason("external_ref", request.ExternalRef, maxExternalRef); reason != "" {
		return request, reason
	}
	if !httpserver.ValidAccountID(request.AccountID) {
		return request, fmt.Sprintf("account_id %q is not 1 to 64 characters of [A-Za-z0-9._-]", request.AccountID)
	}
	amount, err := positive(record[2], request.Currency)
	if err != nil {
		return request, "amount: " + err.Error()
	}
	request.AmountMinor = amount.Minor
	return request, refReason("beneficiary_ref", request.BeneficiaryRef, maxBeneficiaryRef)
}

func refReason(name, ref string, most int) string {
	if n := utf8.RuneCountInString(ref); n < 1 || n > most {
		return fmt.Sprintf("%s has %d characters, want 1 to %d", name, n, most)
	}
	if strings.ContainsFunc(ref, unicode.IsControl) {
		return fmt.Sprintf("%s %q has a control character in it", name, ref)
	}
	return ""
}
