package httpserver

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpclient"
	"railguard/services/strictjson"
)

// Handle adapts a function to gin: the answer is written as JSON with the status, an error as its
// envelope. An error that has no code is logged and answered as INTERNAL.
func (s *Server) Handle(do func(c *gin.Context) (status int, answer any, err error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		status, answer, err := do(c)
		if err != nil {
			if apierr.CodeOf(err) == "" {
				s.options.Logger.ErrorContext(c.Request.Context(), "request_failed",
					"route", c.FullPath(), "error", err.Error(), "requestTraceId", c.GetString(traceKey))
			}
			Fail(c, err)
			return
		}
		if answer == nil {
			c.Status(status)
			c.Writer.WriteHeaderNow()
			return
		}
		c.JSON(status, answer)
	}
}

// Body reads the request's body strictly into v, a pointer to a struct; an empty body is an error.
func Body(c *gin.Context, v any) error { return BodyLimit(c, v, MaxBody) }

// BodyLimit is Body with another bound, in bytes, for the one batch route.
func BodyLimit(c *gin.Context, v any, limit int64) error {
	data, err := readBody(c, limit)
	if err != nil {
		return err
	}
	return decodeBody(data, v)
}

// OptionalBody is Body, but an absent body, however its length was announced, leaves v as it is.
func OptionalBody(c *gin.Context, v any) error {
	data, err := readBody(c, MaxBody)
	if err != nil || len(data) == 0 {
		return err
	}
	return decodeBody(data, v)
}

func readBody(c *gin.Context, limit int64) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, apierr.Field("body", "larger than %d bytes", limit)
	case err != nil:
		return nil, apierr.Field("body", "could not be read to its end")
	}
	return data, nil
}

func decodeBody(data []byte, v any) error {
	if err := strictjson.Decode(data, v); err != nil {
		return apierr.Field("body", "%s", err.Error())
	}
	return nil
}

// FencingToken reads the X-Fencing-Token header: INVALID_TOKEN when it is absent, repeated or malformed.
func FencingToken(c *gin.Context) (fencing.Token, error) {
	values := c.Request.Header.Values(fencing.HeaderToken)
	if len(values) > 1 {
		return 0, apierr.New(apierr.InvalidToken, "%s is given %d times", fencing.HeaderToken, len(values))
	}
	token, err := fencing.Parse(c.GetHeader(fencing.HeaderToken))
	if err != nil {
		return 0, apierr.New(apierr.InvalidToken, "%s: %s", fencing.HeaderToken, err.Error())
	}
	return token, nil
}

var (
	ownerPattern   = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)
	keyPattern     = regexp.MustCompile(`^[A-Za-z0-9:._-]{1,128}$`)
	accountPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// ValidOwner reports whether s can be an owner id: 1 to 64 characters of [A-Za-z0-9._:-].
func ValidOwner(s string) bool { return ownerPattern.MatchString(s) }

// ValidLockKey reports whether s can be a lock key: 1 to 128 characters of [A-Za-z0-9:._-].
func ValidLockKey(s string) bool { return keyPattern.MatchString(s) }

// ValidAccountID reports whether s can be an account id: 1 to 64 characters of [A-Za-z0-9._-], so that
// "payout:" + id is a lock key.
func ValidAccountID(s string) bool { return accountPattern.MatchString(s) }

// OwnerID reads the X-Owner-Id header.
func OwnerID(c *gin.Context) (string, error) {
	owner := c.GetHeader(httpclient.HeaderOwnerID)
	if !ValidOwner(owner) {
		return "", apierr.Field(httpclient.HeaderOwnerID, "want 1 to 64 characters of [A-Za-z0-9._:-]")
	}
	return owner, nil
}

// IdempotencyKey reads the X-Idempotency-Key header.
func IdempotencyKey(c *gin.Context) (string, error) {
	key := c.GetHeader(httpclient.HeaderIdempotencyKey)
	if !keyPattern.MatchString(key) {
		return "", apierr.Field(httpclient.HeaderIdempotencyKey, "want 1 to 128 characters of [A-Za-z0-9:._-]")
	}
	return key, nil
}

// PathUUID reads a path parameter that is a UUID in its canonical lower-case form.
func PathUUID(c *gin.Context, name string) (string, error) {
	value := c.Param(name)
	if !ValidUUID(value) {
		return "", apierr.Field(name, "want a UUID in its canonical form")
	}
	return value, nil
}

// ValidUUID reports whether s is a UUID in its canonical lower-case form.
func ValidUUID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// PathAccount reads a path parameter that is an account id.
func PathAccount(c *gin.Context, name string) (string, error) {
	value := c.Param(name)
	if !ValidAccountID(value) {
		return "", apierr.Field(name, "want 1 to 64 characters of [A-Za-z0-9._-]")
	}
	return value, nil
}

// QueryInt reads an optional integer query parameter within [low, high].
func QueryInt(c *gin.Context, name string, fallback, low, high int) (int, error) {
	text, given := c.GetQuery(name)
	if !given {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, apierr.Field(name, "want an integer from %d to %d", low, high)
	}
	return n, nil
}
