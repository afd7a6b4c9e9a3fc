package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/lockserver/internal/lock"
	"railguard/services/telemetry"
)

// Bounds of a lease and of waiting. A lease that outlives its holder keeps an account from being paid
// for as long.
const (
	minTTL  = 100 * time.Millisecond
	maxTTL  = 10 * time.Minute
	maxWait = 30 * time.Second
)

// acquireBody is lockapi.AcquireRequest with absent told from zero.
type acquireBody struct {
	TTLMillis  *int64  `json:"ttlMillis"`
	WaitMillis *int64  `json:"waitMillis"`
	SessionID  *string `json:"sessionId"`
}

func (a *API) readAcquire(c *gin.Context) (r lock.Request, wait time.Duration, err error) {
	if r.Key, err = pathKey(c); err != nil {
		return r, 0, err
	}
	if r.OwnerID, err = httpserver.OwnerID(c); err != nil {
		return r, 0, err
	}
	var body acquireBody
	if err := httpserver.Body(c, &body); err != nil {
		return r, 0, err
	}
	if r.TTL, err = millis("ttlMillis", body.TTLMillis, minTTL, maxTTL); err != nil {
		return r, 0, err
	}
	if r.TTL == 0 {
		r.TTL = a.DefaultTTL
	}
	if body.SessionID != nil {
		if r.SessionID = *body.SessionID; !httpserver.ValidUUID(r.SessionID) {
			return r, 0, apierr.Field("sessionId", "want a UUID in its canonical form")
		}
	}
	wait, err = millis("waitMillis", body.WaitMillis, 0, maxWait)
	return r, wait, err
}

func (a *API) acquire(c *gin.Context) (int, any, error) {
	r, wait, err := a.readAcquire(c)
	if err != nil {
		return 0, nil, err
	}
	ctx, span := telemetry.StartSpan(c.Request.Context(), "lock.acquire", 0)
	defer span.End()
	began := time.Now()
	g, err := a.Queue.Acquire(ctx, r, wait)
	a.Signals.acquired(outcomeOf(err), began)
	if err != nil {
		return 0, nil, envelope(err)
	}
	span.SetAttributes(attribute.Int64("lock.token", int64(g.Token)))
	a.Signals.granted(ctx, g)
	return http.StatusOK, wireGrant(g), nil
}

func outcomeOf(err error) string {
	var contended *lock.ContendedError
	switch {
	case err == nil:
		return outcomeGranted
	case errors.As(err, &contended), errors.Is(err, lock.ErrTooManyWaiters), errors.Is(err, lock.ErrCallerGone):
		return outcomeContended
	}
	return outcomeError
}

func wireGrant(g lock.Grant) lockapi.Grant {
	return lockapi.Grant{Key: g.Key, OwnerID: g.OwnerID, SessionID: g.SessionID, FencingToken: g.Token,
		TTLMillis: g.TTL.Milliseconds(), AcquiredAt: g.AcquiredAt.UTC(), ExpiresAt: g.ExpiresAt.UTC()}
}

// grantOf reads what renew and release have in common: which grant, and who asks. The token alone says which
// grant it is; the owner is for the record.
func grantOf(c *gin.Context) (key string, token fencing.Token, err error) {
	if key, err = pathKey(c); err != nil {
		return "", 0, err
	}
	if token, err = httpserver.FencingToken(c); err != nil {
		return "", 0, err
	}
	_, err = httpserver.OwnerID(c)
	return key, token, err
}

func (a *API) renew(c *gin.Context) (int, any, error) {
	key, token, err := grantOf(c)
	if err != nil {
		return 0, nil, err
	}
	var body struct {
		TTLMillis *int64 `json:"ttlMillis"`
	}
	if err := httpserver.OptionalBody(c, &body); err != nil {
		return 0, nil, err
	}
	ttl, err := millis("ttlMillis", body.TTLMillis, minTTL, maxTTL)
	if err != nil {
		return 0, nil, err
	}
	ctx, span := telemetry.StartSpan(c.Request.Context(), "lock.renew", token)
	defer span.End()
	g, err := a.Store.Renew(ctx, key, token, ttl)
	if err != nil {
		return 0, nil, envelope(err)
	}
	return http.StatusOK, wireGrant(g), nil
}

func (a *API) release(c *gin.Context) (int, any, error) {
	key, token, err := grantOf(c)
	if err != nil {
		return 0, nil, err
	}
	ctx, span := telemetry.StartSpan(c.Request.Context(), "lock.release", token)
	defer span.End()
	freed, err := a.Store.Release(ctx, key, token)
	if err != nil {
		return 0, nil, envelope(err)
	}
	a.Signals.released(ctx, freed)
	return http.StatusNoContent, nil, nil
}

const advisory = "out of date before it is read: nothing may be decided by it"

func (a *API) get(c *gin.Context) (int, any, error) {
	key, err := pathKey(c)
	if err != nil {
		return 0, nil, err
	}
	state, err := a.Store.Get(c.Request.Context(), key)
	if err != nil {
		return 0, nil, envelope(err)
	}
	answer := lockapi.Lock{Key: key, Held: state.Held, OwnerID: state.OwnerID, SessionID: state.SessionID,
		FencingToken: state.Token, Advisory: advisory}
	if state.Held {
		acquiredAt, expiresAt := state.AcquiredAt.UTC(), state.ExpiresAt.UTC()
		answer.AcquiredAt, answer.ExpiresAt = &acquiredAt, &expiresAt
	}
	return http.StatusOK, answer, nil
}
