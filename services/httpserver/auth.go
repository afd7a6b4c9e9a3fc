package httpserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
)

// Role is what a bearer token may be used for.
type Role string

// The roles. A route names every role that may call it; none includes another.
const (
	Executor   Role = "executor"   // lock, claim, post, submit
	Resolver   Role = "resolver"   // lock, resolution, raise fence, look-ups
	Operator   Role = "operator"   // revoke, cancel, resolve, raise fence, advance tokens
	Intake     Role = "intake"     // accounts, payouts
	Reconciler Role = "reconciler" // reads for reconciliation
	Reader     Role = "reader"     // reads
)

// AnyRole is every role: what any authenticated caller may read.
var AnyRole = []Role{Executor, Resolver, Operator, Intake, Reconciler, Reader}

// Caller is who presented the bearer token. Decisions are recorded under Name.
type Caller struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// TokenEntry is one line of the tokens file, a JSON array: the SHA-256 of a bearer token, in hexadecimal, never the token itself.
type TokenEntry struct {
	Name   string `json:"name"`
	Role   Role   `json:"role"`
	SHA256 string `json:"sha256"`
}

// HashBearer is the form in which a bearer token stands in the tokens file.
func HashBearer(bearer string) string {
	sum := sha256.Sum256([]byte(bearer))
	return hex.EncodeToString(sum[:])
}

type credential struct {
	caller Caller
	sum    []byte
}

// Tokens is the loaded tokens file; Reload replaces it as a whole.
type Tokens struct {
	path    string
	current atomic.Pointer[[]credential]
}

// LoadTokens reads a tokens file. An empty path gives a set that refuses every caller.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	t.current.Store(&[]credential{})
	if path == "" {
		return t, nil
	}
	return t, t.Reload()
}

// Reload reads the file again. On an error the tokens in force stay as they are.
func (t *Tokens) Reload() error {
	if t.path == "" {
		return nil
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("AUTH_TOKENS_FILE: %w", err)
	}
	var entries []TokenEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return fmt.Errorf("AUTH_TOKENS_FILE: %w", err)
	}
	credentials := make([]credential, 0, len(entries))
	for i, e := range entries {
		sum, err := hex.DecodeString(e.SHA256)
		if err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("AUTH_TOKENS_FILE: entry %d (%q): sha256 is not 64 hexadecimal digits", i, e.Name)
		}
		known := false
		for _, role := range AnyRole {
			known = known || role == e.Role
		}
		if e.Name == "" || !known {
			return fmt.Errorf("AUTH_TOKENS_FILE: entry %d: name %q, role %q: want a name and a known role", i, e.Name, e.Role)
		}
		credentials = append(credentials, credential{Caller{e.Name, e.Role}, sum})
	}
	t.current.Store(&credentials)
	return nil
}

func (t *Tokens) find(bearer string) (Caller, bool) {
	sum := sha256.Sum256([]byte(bearer))
	var found Caller
	ok := false
	for _, c := range *t.current.Load() { // no early end: the time taken tells nothing
		if subtle.ConstantTimeCompare(sum[:], c.sum) == 1 {
			found, ok = c.caller, true
		}
	}
	return found, ok
}

const callerKey = "railguard.caller"

func (t *Tokens) authenticate(c *gin.Context) {
	bearer, ok := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	if !ok || bearer == "" {
		Fail(c, apierr.New(apierr.Unauthenticated, "a bearer token is required"))
		return
	}
	caller, ok := t.find(bearer)
	if !ok {
		Fail(c, apierr.New(apierr.Unauthenticated, "the bearer token is not known"))
		return
	}
	c.Set(callerKey, caller)
}

// CallerOf returns who made the request.
func CallerOf(c *gin.Context) Caller {
	caller, _ := c.Get(callerKey)
	known, _ := caller.(Caller)
	return known
}

// Allow lets only these roles pass.
func Allow(roles ...Role) gin.HandlerFunc {
	return func(c *gin.Context) {
		caller := CallerOf(c)
		for _, role := range roles {
			if caller.Role == role {
				return
			}
		}
		Fail(c, apierr.New(apierr.Forbidden, "role %q may not do this", caller.Role))
	}
}

// ErrOpenToAll is the refusal to serve on a reachable address without a tokens file.
var ErrOpenToAll = errors.New("AUTH_TOKENS_FILE must be set: without it this service serves on a loopback address only")

func requireLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return ErrOpenToAll
}
