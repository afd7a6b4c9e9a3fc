// Package lock is what a lock backend owes the server: the Store interface, the values that cross it,
// and the queue in which callers wait.
package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"railguard/services/fencing"
)

// Store is one lock backend. Every method may be called concurrently, and by several servers that share
// the backend.
//
// What every backend promises:
//   - At most one live grant per key (INV-06). A grant lives until its lease lapses by the backend's own
//     clock, its session ends or lapses, it is released, or it is revoked, whichever comes first.
//   - Tokens of a key never repeat and never go back (INV-04), and a token is issued by a new grant only.
//   - An error that wraps ErrUnavailable says nothing about what the backend did. It is the answer to
//     every fault of network, pool or backend; such a fault is never reported as ErrLost or as contention.
//   - A change whose answer was lost is read back before anything is said about it.
type Store interface {
	// Acquire grants the key, or answers at once with *ContendedError. A live grant of the same owner is
	// answered with its own token and a lease that ends later than before; anything else that is granted,
	// the same owner's lapsed grant included, gets a new token. Also ErrSessionUnknown, ErrSessionExpired.
	Acquire(ctx context.Context, r Request) (Grant, error)

	// Undo frees a grant that nobody was told about. ErrLost, and nothing is done, when the grant has ended
	// or its lease was lengthened since: then the same owner asked again and holds the same token.
	Undo(ctx context.Context, g Grant) (Freed, error)

	// Renew gives the grant (key, token) a later expiry: now + ttl, and never an earlier one than it has. A ttl
	// of 0 is the one the grant was made with. ErrLost once the grant has ended, even by a microsecond.
	Renew(ctx context.Context, key string, token fencing.Token, ttl time.Duration) (Grant, error)

	// Release frees the key if the grant (key, token) lives, else ErrLost.
	Release(ctx context.Context, key string, token fencing.Token) (Freed, error)

	// Get says what the backend last knew of a key; out of date before it is read. A key that was never
	// granted is a free one with token 0.
	Get(ctx context.Context, key string) (State, error)

	// Revoke ends whatever grant the key has and mints a floor: no grant of the key will ever carry a
	// token at or below it. A free key may be revoked too, since a stopped holder of a lapsed grant may wake.
	// ErrNeverGranted when the key has no token yet; *UnexpectedTokenError when expected is set and is
	// not the key's last token.
	Revoke(ctx context.Context, r Revoke) (Revocation, error)

	// Advance lifts the token source: every later token is above the returned floor, which is at least
	// above + AdvanceMargin, and never below a token already issued. No live grant changes.
	Advance(ctx context.Context, above fencing.Token) (fencing.Token, error)

	// CreateSession opens a session that lives for ttl from now, and from each heartbeat.
	CreateSession(ctx context.Context, ownerID string, ttl time.Duration) (Session, error)

	// Heartbeat keeps a session alive: ErrSessionUnknown when the owner has no such session,
	// ErrSessionExpired when it lapsed; a lapsed session never comes back.
	Heartbeat(ctx context.Context, ownerID, sessionID string) (Session, error)

	// EndSession ends a session and frees the grants that were made in it; errors as Heartbeat.
	EndSession(ctx context.Context, ownerID, sessionID string) ([]Freed, error)

	// Sweep marks grants that have lapsed as free, at most a bounded number of them in one call, and says
	// which, and how many grants are live. It issues no tokens and is never needed for safety.
	Sweep(ctx context.Context) (Swept, error)

	// Watch calls freed with every key that this server freed, and with those freed by others as far as the
	// backend tells, until ctx ends. It is a hint that may be lost or come twice. Called once.
	Watch(ctx context.Context, freed func(key string))

	// Ready says why the backend can grant nothing now, nil when it can.
	Ready(ctx context.Context) error
}

// AdvanceMargin is how far Advance lifts the source beyond what it is told: tokens that were issued
// before a restore and that no guard has seen yet lie above the highest stored one.
const AdvanceMargin fencing.Token = 1_000_000_000

// Request asks for a key. SessionID is "" for a grant that depends on no session.
type Request struct {
	Key, OwnerID, SessionID string
	TTL                     time.Duration
}

// Grant is a lock held. TTL is what was granted: at least what was asked for.
type Grant struct {
	Key, OwnerID, SessionID string
	Token                   fencing.Token
	TTL                     time.Duration
	AcquiredAt, ExpiresAt   time.Time // the backend's clock
	// Resumed says that the grant lived before this call: the same owner asked again.
	Resumed bool
	// Lapsed is the grant that this one replaced because it had lapsed, nil for none.
	Lapsed *Freed
}

// Freed is a grant that ended, and for how long it had been held.
type Freed struct {
	Key, OwnerID string
	Token        fencing.Token
	Held         time.Duration
}

// State is what Get says.
type State struct {
	Key                   string
	Held                  bool
	OwnerID, SessionID    string        // "" unless held
	Token                 fencing.Token // of the last grant or floor, also when free
	AcquiredAt, ExpiresAt time.Time     // zero unless held
	Remaining             time.Duration // of the lease, by the backend's clock
}

// Session groups grants: they end when it does.
type Session struct {
	ID, OwnerID          string
	TTL                  time.Duration
	CreatedAt, ExpiresAt time.Time
}

// Revoke takes a key from its holder. Expected of 0 means whatever token the key has.
type Revoke struct {
	Key, Operator, Reason string
	Expected              fencing.Token
}

// Revocation is what Revoke did. OwnerID is "" when the key was free.
type Revocation struct {
	ID, Key, OwnerID string
	Revoked, Floor   fencing.Token
}

// Swept is what Sweep did. More says that there is more to free at once.
type Swept struct {
	Lapsed []Freed
	Held   int64
	More   bool
}

// Errors that a Store returns, wrapped or plain; callers match them with errors.Is.
var (
	ErrLost           = errors.New("the grant has ended")
	ErrUnavailable    = errors.New("the lock backend is unavailable")
	ErrSessionUnknown = errors.New("the owner has no such session")
	ErrSessionExpired = errors.New("the session has expired")
	ErrNeverGranted   = errors.New("the key was never granted")
)

// ContendedError says that another owner holds the key. The holder is "" when it could not be told.
type ContendedError struct {
	HolderOwnerID string
	ExpiresAt     time.Time
	Remaining     time.Duration // of the holder's lease, by the backend's clock
}

// Error implements error.
func (e *ContendedError) Error() string { return "held by " + e.HolderOwnerID }

// UnexpectedTokenError says that the key's last token is another than the expected one.
type UnexpectedTokenError struct{ Current fencing.Token }

// Error implements error.
func (e *UnexpectedTokenError) Error() string {
	return fmt.Sprintf("the last token of the key is %d", e.Current)
}
