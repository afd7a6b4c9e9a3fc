package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/money"
)

type headers struct {
	token    fencing.Token
	owner    string
	payoutID string
}

// The bounds of free text, in characters.
const (
	maxRef       = 128
	maxReference = 256
	maxReason    = 1000
	maxName      = 64
)

// problems collects what is wrong with a body, by field.
type problems map[string]string

func (p problems) add(field, format string, args ...any) {
	if _, known := p[field]; !known {
		p[field] = fmt.Sprintf(format, args...)
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return apierr.Fields(p)
}

// text checks free text: low to high characters, none of them a control character, because PostgreSQL refuses
// some of these and people cannot see them.
func (p problems) text(field, s string, low, high int) {
	if n := utf8.RuneCountInString(s); n < low || n > high {
		p.add(field, "want %d to %d characters", low, high)
	} else if strings.ContainsFunc(s, unicode.IsControl) {
		p.add(field, "contains a control character")
	}
}

func (p problems) account(field, s string) {
	if !httpserver.ValidAccountID(s) {
		p.add(field, "want 1 to 64 characters of [A-Za-z0-9._-]")
	}
}

func (p problems) currency(field string, c money.Currency) {
	if _, err := c.Exponent(); err != nil {
		p.add(field, "not a known ISO 4217 code")
	}
}

func (p problems) above(field string, n, low int64) {
	if n <= low {
		p.add(field, "want an integer above %d", low)
	}
}

func (p problems) oneOf(field, s string, allowed ...string) {
	for _, a := range allowed {
		if s == a {
			return
		}
	}
	p.add(field, "want one of %s", strings.Join(allowed, ", "))
}

func (p problems) optionalUUID(field, s string) {
	if s != "" && !httpserver.ValidUUID(s) {
		p.add(field, "want a UUID in its canonical form")
	}
}

// evidence checks that data is a JSON object which PostgreSQL can store as jsonb.
func (p problems) evidence(field string, data json.RawMessage) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || len(object) == 0 {
		p.add(field, "want a JSON object that is not empty")
		return
	}
	if !storable(object) {
		p.add(field, "contains a NUL character or a number out of range")
	}
}

// storableNumber keeps numbers within what both a float64 and a numeric of PostgreSQL hold.
func storableNumber(s string) bool {
	f, err := strconv.ParseFloat(s, 64)
	digits, _, _ := strings.Cut(strings.ToLower(s), "e")
	isZero := strings.Trim(digits, "-0.") == ""
	return err == nil && len(s) <= 64 && (math.Abs(f) > 1e-300 || isZero && digits == s)
}

func storable(v any) bool {
	switch v := v.(type) {
	case string:
		return !strings.ContainsRune(v, 0)
	case json.Number:
		return storableNumber(v.String())
	case []any:
		for _, element := range v {
			if !storable(element) {
				return false
			}
		}
	case map[string]any:
		for key, element := range v {
			if !storable(key) || !storable(element) {
				return false
			}
		}
	}
	return true
}
