package api

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/lockserver/internal/lock"
)

// Bounds of what an operator writes, in characters.
const (
	maxOperator     = 128
	minRevokeReason = 8
	maxReason       = 500
)

func (a *API) revoke(c *gin.Context) (int, any, error) {
	key, err := pathKey(c)
	if err != nil {
		return 0, nil, err
	}
	if _, err := httpserver.OwnerID(c); err != nil {
		return 0, nil, err
	}
	var body struct {
		Operator      string         `json:"operator"`
		Reason        string         `json:"reason"`
		ExpectedToken *fencing.Token `json:"expectedToken"`
	}
	if err := httpserver.Body(c, &body); err != nil {
		return 0, nil, err
	}
	if err := checkRecord(body.Operator, body.Reason, minRevokeReason); err != nil {
		return 0, nil, err
	}
	r := lock.Revoke{Key: key, Operator: body.Operator, Reason: body.Reason}
	if body.ExpectedToken != nil {
		if r.Expected = *body.ExpectedToken; !r.Expected.Valid() {
			return 0, nil, apierr.Field("expectedToken", "want an integer above 0")
		}
	}
	v, err := a.Store.Revoke(c.Request.Context(), r)
	if err != nil {
		return 0, nil, envelope(err)
	}
	a.Signals.revocation(c.Request.Context(), v, r)
	return http.StatusOK, lockapi.Revocation{Key: v.Key, RevokedToken: v.Revoked, NewTokenFloor: v.Floor, RevocationID: v.ID}, nil
}

func (a *API) advance(c *gin.Context) (int, any, error) {
	if _, err := httpserver.OwnerID(c); err != nil {
		return 0, nil, err
	}
	var body lockapi.AdvanceRequest
	if err := httpserver.Body(c, &body); err != nil {
		return 0, nil, err
	}
	if !body.Above.Valid() || body.Above > fencing.MaxFloor {
		return 0, nil, apierr.Field("above", "want an integer from 1 to %d", fencing.MaxFloor)
	}
	if err := checkRecord(body.Operator, body.Reason, 1); err != nil {
		return 0, nil, err
	}
	floor, err := a.Store.Advance(c.Request.Context(), body.Above)
	if err != nil {
		return 0, nil, envelope(err)
	}
	a.Signals.advanced(c.Request.Context(), body, floor, httpserver.CallerOf(c).Name)
	return http.StatusOK, lockapi.Advance{Floor: floor}, nil
}

// checkRecord checks what an operator writes for the record: text that a person can read later.
func checkRecord(operator, reason string, minReason int) error {
	wrong := make(map[string]string)
	if !readable(operator, 1, maxOperator) {
		wrong["operator"] = "want 1 to 128 printable characters"
	}
	if !readable(reason, minReason, maxReason) {
		wrong["reason"] = "too short, too long (500 characters) or not printable"
	}
	if len(wrong) > 0 {
		return apierr.Fields(wrong)
	}
	return nil
}

func readable(s string, low, high int) bool {
	n := utf8.RuneCountInString(strings.TrimSpace(s))
	return n >= low && utf8.RuneCountInString(s) <= high && !strings.ContainsFunc(s, unicode.IsControl)
}
