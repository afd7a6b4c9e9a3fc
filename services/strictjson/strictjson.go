// Package strictjson decodes JSON and refuses whatever encoding/json lets through: duplicate keys,
// (also those that differ in case only), unknown fields, trailing data, anything but an object, and bytes that are not UTF-8.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds nesting; no document of ours is deeper than four.
const maxDepth = 16

// Decode reads exactly one JSON object from data into v, a pointer to a struct or to a map. The error
// names what was wrong and where.
func Decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("not valid UTF-8")
	}
	if unpairedSurrogate(data) {
		return errors.New("not valid UTF-8: an escape is half of a surrogate pair")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("empty, want a JSON object")
	}
	scan := json.NewDecoder(bytes.NewReader(data))
	scan.UseNumber()
	first, err := scan.Token()
	if err != nil {
		return describe(err)
	}
	if first != json.Delim('{') {
		return errors.New("want a JSON object")
	}
	if err := object(scan, "", 1); err != nil {
		return err
	}
	if _, err := scan.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data after the JSON object")
	}
	decode := json.NewDecoder(bytes.NewReader(data))
	decode.DisallowUnknownFields()
	if err := decode.Decode(v); err != nil {
		return describe(err)
	}
	return nil
}

// unpairedSurrogate reports whether an escape in data is half of a surrogate pair. There is no UTF-8 for it: encoding/json
// puts U+FFFD in its place, and PostgreSQL refuses a document that is passed on as it came.
func unpairedSurrogate(data []byte) bool {
	for i := 0; i+1 < len(data); i++ {
		if data[i] != '\\' { // outside of strings a backslash is a syntax error, found later
			continue
		}
		high := escaped(data[i:])
		switch {
		case !utf16.IsSurrogate(high):
			i++
		case utf16.DecodeRune(high, escaped(data[i+6:])) == unicode.ReplacementChar:
			return true
		default:
			i += 11
		}
	}
	return false
}

// escaped is the character of an escape \uXXXX at the start of data, or -1.
func escaped(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}

// fold gives the same rune for all that encoding/json takes for one when it matches keys: s and ſ, k and the Kelvin sign.
func fold(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// object consumes the rest of an object whose opening brace was read. Keys are compared without
// regard to case, because encoding/json matches them so and would let the last one win.
func object(scan *json.Decoder, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	seen := make(map[string]bool)
	for scan.More() {
		token, err := scan.Token()
		if err != nil {
			return describe(err)
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("key %v is not a string", token)
		}
		folded := strings.Map(fold, key)
		if seen[folded] {
			return fmt.Errorf("duplicate key %q", path+key)
		}
		seen[folded] = true
		if err := value(scan, path+key+".", depth); err != nil {
			return err
		}
	}
	_, err := scan.Token()
	return describe(err)
}

func value(scan *json.Decoder, path string, depth int) error {
	token, err := scan.Token()
	if err != nil {
		return describe(err)
	}
	switch token {
	case json.Delim('{'):
		return object(scan, path, depth+1)
	case json.Delim('['):
		if depth > maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		for scan.More() {
			if err := value(scan, path, depth+1); err != nil {
				return err
			}
		}
		_, err := scan.Token()
		return describe(err)
	}
	return nil
}

func describe(err error) error {
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("truncated JSON")
	case errors.As(err, &wrongType):
		if strings.HasPrefix(wrongType.Value, "number ") {
			return fmt.Errorf("field %q: %s is out of range or not an integer", wrongType.Field, wrongType.Value)
		}
		return fmt.Errorf("field %q: want %s, got %s", wrongType.Field, jsonName(wrongType), wrongType.Value)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func jsonName(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "string":
		return "a string"
	case "bool":
		return "true or false"
	case "struct", "map":
		return "an object"
	case "slice":
		return "an array"
	}
	return "an integer"
}
