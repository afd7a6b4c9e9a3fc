// Package api is the lock-server's HTTP surface, /v1.
package api

import (
	"errors"
	"time"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/lockserver/internal/lock"
)

// API answers the requests under /v1.
type API struct {
	Store      lock.Store
	Queue      *lock.Queue
	Signals    *Signals
	DefaultTTL time.Duration // of an acquire that names none
}

// Routes adds the routes to the server. Locking is for those who execute or resolve payouts, breaking a lock and lifting the
// token source for operators; the look-up is advisory and open to every role.
func (a *API) Routes(s *httpserver.Server) {
	locking := httpserver.Allow(httpserver.Executor, httpserver.Resolver)
	operating := httpserver.Allow(httpserver.Operator)
	reading := httpserver.Allow(httpserver.AnyRole...)
	s.API.POST("/sessions", locking, s.Handle(a.createSession))
	s.API.POST("/sessions/:id/heartbeat", locking, s.Handle(a.heartbeat))
	s.API.DELETE("/sessions/:id", locking, s.Handle(a.endSession))
	s.API.POST("/locks/:key/acquire", locking, s.Handle(a.acquire))
	s.API.POST("/locks/:key/renew", locking, s.Handle(a.renew))
	s.API.DELETE("/locks/:key", locking, s.Handle(a.release))
	s.API.GET("/locks/:key", reading, s.Handle(a.get))
	s.API.POST("/locks/:key/revoke", operating, s.Handle(a.revoke))
	s.API.POST("/tokens/advance", operating, s.Handle(a.advance))
}

// retryAfter is what a caller is told that found no room to wait.
const retryAfter = 500 * time.Millisecond

// envelope turns an error of the store or the queue into the answer's code; an error that it does not
// know passes, and is answered INTERNAL.
func envelope(err error) error {
	var contended *lock.ContendedError
	var unexpected *lock.UnexpectedTokenError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &contended):
		refusal := apierr.New(apierr.LockContended, "another owner holds the lock")
		if contended.HolderOwnerID != "" {
			refusal = refusal.With("holderOwnerId", contended.HolderOwnerID).With("expiresAt", contended.ExpiresAt.UTC())
		}
		return refusal
	case errors.As(err, &unexpected):
		return apierr.New(apierr.LockLost, "the lock's last token is another than the expected one").With("currentToken", unexpected.Current)
	case errors.Is(err, lock.ErrTooManyWaiters):
		return apierr.New(apierr.ContentionExceeded, "as many callers wait for this lock as may").RetryAfter(retryAfter)
	case errors.Is(err, lock.ErrLost):
		return apierr.New(apierr.LockLost, "this token does not hold the lock, or no longer")
	case errors.Is(err, lock.ErrSessionUnknown):
		return apierr.New(apierr.SessionUnknown, "this owner has no such session")
	case errors.Is(err, lock.ErrSessionExpired):
		return apierr.New(apierr.SessionExpired, "the session has expired")
	case errors.Is(err, lock.ErrNeverGranted):
		return apierr.New(apierr.NotFound, "the lock was never granted")
	case errors.Is(err, lock.ErrUnavailable), errors.Is(err, lock.ErrCallerGone):
		return apierr.New(apierr.NotLeader, "the lock backend is unavailable; what it did is not known")
	}
	return err
}

// pathKey reads the lock's key.
func pathKey(c *gin.Context) (string, error) {
	key := c.Param("key")
	if !httpserver.ValidLockKey(key) {
		return "", apierr.Field("key", "want 1 to 128 characters of [A-Za-z0-9:._-]")
	}
	return key, nil
}

// millis reads an optional duration within bounds; absent is 0.
func millis(name string, given *int64, low, high time.Duration) (time.Duration, error) {
	if given == nil {
		return 0, nil
	}
	if *given < low.Milliseconds() || *given > high.Milliseconds() {
		return 0, apierr.Field(name, "want milliseconds from %d to %d", low.Milliseconds(), high.Milliseconds())
	}
	return time.Duration(*given) * time.Millisecond, nil
}
