// Package fencing holds the fencing token: the number that a guard compares before it allows an effect.
package fencing

import (
	"errors"
	"fmt"
	"strconv"
)

// HeaderToken is the HTTP header that carries the token. A token travels in this header, in a
// parameter or in an activity argument, and nowhere else.
const HeaderToken = "X-Fencing-Token"

// MaxFloor bounds every value that a person can ask a token source or a fence to be raised to:
// a typing error must not use the tokens up, and below 2^53 every JSON reader shows a token exactly.
const MaxFloor Token = 1 << 50

// Token is a fencing token: greater than zero, strictly increasing per lock key, never reissued (INV-04).
// The zero value is no token at all.
type Token int64

// ErrInvalidToken is wrapped by every error of Parse.
var ErrInvalidToken = errors.New("invalid fencing token")

// Parse reads the decimal form of a token. A sign, a leading zero, white space, zero, a negative
// number and a number above 2^63-1 are errors; nothing is coerced.
func Parse(s string) (Token, error) {
	if s == "" {
		return 0, fmt.Errorf("%w: absent", ErrInvalidToken)
	}
	if s[0] < '1' || s[0] > '9' {
		return 0, fmt.Errorf("%w: %q is not a decimal integer above zero", ErrInvalidToken, s)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is not a decimal integer above zero", ErrInvalidToken, s)
	}
	return Token(n), nil
}

// Valid reports whether t can be a token that some grant issued.
func (t Token) Valid() bool { return t > 0 }

// String is the decimal form, as in the header.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }
