package strictjson_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/services/strictjson"
)

type document struct {
	Name   string            `json:"name"`
	Amount int64             `json:"amount"`
	On     bool              `json:"on"`
	Inner  struct{ A int64 } `json:"inner"`
	List   []struct{ A int } `json:"list"`
}

func TestDecodeAcceptsOneObject(t *testing.T) {
	var d document
	require.NoError(t, strictjson.Decode([]byte(` {"name":"x","amount":9223372036854775807,"on":true,"inner":{"A":1},"list":[{"A":1},{"A":1}]} `), &d))
	require.Equal(t, int64(9223372036854775807), d.Amount)
	require.Len(t, d.List, 2)
}

func TestDecodeTakesEscapes(t *testing.T) {
	var d document
	require.NoError(t, strictjson.Decode([]byte(`{"name":"\ud83d\uDE00 \\ud800 \u00e9\\"}`), &d))
	require.Equal(t, "😀 \\ud800 é\\", d.Name)
}

func TestDecodeRefusesAndNamesWhatIsWrong(t *testing.T) {
	for body, want := range map[string]string{
		``:                                    "empty",
		`   `:                                 "empty",
		`null`:                                "want a JSON object",
		`[]`:                                  "want a JSON object",
		`"x"`:                                 "want a JSON object",
		`{"name":"x"`:                         "truncated",
		`{"name":"x"} {}`:                     "trailing",
		`{"name":"x"}x`:                       "trailing",
		`{"nam":"x"}`:                         `unknown field "nam"`,
		`{"name":"x","name":"y"}`:             `duplicate key "name"`,
		`{"name":"x","NAME":"y"}`:             `duplicate key "NAME"`,
		`{"list":[],"liſt":[]}`:               `duplicate key "liſt"`,
		`{"inner":{"A":1,"A":2}}`:             `duplicate key "inner.A"`,
		`{"list":[{"A":1,"A":2}]}`:            `duplicate key`,
		`{"amount":1.5}`:                      `"amount"`,
		`{"amount":9223372036854775808}`:      `out of range`,
		`{"amount":1e3}`:                      `"amount"`,
		`{"amount":"1"}`:                      `want an integer, got string`,
		`{"name":1}`:                          `want a string`,
		`{"on":"yes"}`:                        `want true or false`,
		`{"inner":[]}`:                        `want an object`,
		`{name:1}`:                            `invalid character`,
		"{\"name\":\"\xff\"}":                 "UTF-8",
		`{"name":"\ud800"}`:                   "surrogate",
		`{"name":"\udc00\ud800"}`:             "surrogate",
		`{"name":"\\\ud83d\u0041"}`:           "surrogate",
		`{"\ud83d":1}`:                        "surrogate",
		`{"name":"\ud8`:                       "truncated",
		strings.Repeat(`{"inner":`, 40) + `1`: "nested deeper",
	} {
		var d document
		err := strictjson.Decode([]byte(body), &d)
		require.ErrorContains(t, err, want, "%s", body)
	}
}
