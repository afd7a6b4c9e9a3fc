package api

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/lockserver/internal/lock"
)

// Bounds of a session's TTL.
const (
	minSessionTTL = time.Second
	maxSessionTTL = time.Minute
)

func (a *API) createSession(c *gin.Context) (int, any, error) {
	ownerID, err := httpserver.OwnerID(c)
	if err != nil {
		return 0, nil, err
	}
	var body struct {
		OwnerID   string `json:"ownerId"`
		TTLMillis *int64 `json:"ttlMillis"`
	}
	if err := httpserver.Body(c, &body); err != nil {
		return 0, nil, err
	}
	if body.OwnerID != ownerID {
		return 0, nil, apierr.Field("ownerId", "want what %s says", httpclient.HeaderOwnerID)
	}
	if body.TTLMillis == nil {
		body.TTLMillis = new(int64) // out of bounds: it is required
	}
	ttl, err := millis("ttlMillis", body.TTLMillis, minSessionTTL, maxSessionTTL)
	if err != nil {
		return 0, nil, err
	}
	session, err := a.Store.CreateSession(c.Request.Context(), ownerID, ttl)
	if err != nil {
		return 0, nil, envelope(err)
	}
	return http.StatusCreated, wireSession(session), nil
}

func (a *API) heartbeat(c *gin.Context) (int, any, error) {
	ownerID, id, err := sessionOf(c)
	if err != nil {
		return 0, nil, err
	}
	session, err := a.Store.Heartbeat(c.Request.Context(), ownerID, id)
	if err != nil {
		return 0, nil, envelope(err)
	}
	return http.StatusOK, wireSession(session), nil
}

func (a *API) endSession(c *gin.Context) (int, any, error) {
	ownerID, id, err := sessionOf(c)
	if err != nil {
		return 0, nil, err
	}
	freed, err := a.Store.EndSession(c.Request.Context(), ownerID, id)
	if err != nil {
		return 0, nil, envelope(err)
	}
	for _, f := range freed {
		a.Signals.released(c.Request.Context(), f)
	}
	return http.StatusNoContent, nil, nil
}

func sessionOf(c *gin.Context) (ownerID, id string, err error) {
	if id, err = httpserver.PathUUID(c, "id"); err != nil {
		return "", "", err
	}
	ownerID, err = httpserver.OwnerID(c)
	return ownerID, id, err
}

func wireSession(s lock.Session) lockapi.Session {
	return lockapi.Session{SessionID: s.ID, OwnerID: s.OwnerID, TTLMillis: s.TTL.Milliseconds(),
		CreatedAt: s.CreatedAt.UTC(), ExpiresAt: s.ExpiresAt.UTC()}
}
