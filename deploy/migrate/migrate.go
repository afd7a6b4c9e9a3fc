// Package migrate brings both databases to the schema of this build: every owner's tables, the roles that the
// services log in with, and their passwords. Running it again changes nothing that is in place.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"railguard/services/lockserver"
	"railguard/services/paymentresource"
	"railguard/services/railproxy"
)

// owner is one set of tables: its migrations are applied in its database and counted in its own version table.
type owner struct {
	name, database string
	apply          func(ctx context.Context, ownerURL string) error
}

// owners lists them in the order in which they are applied. Their names are those of their version tables.
func owners() []owner {
	return []owner{
		{"lock", Lockdb, lockserver.Migrate},
		{"payment", Paydb, paymentresource.Migrate},
		{"railproxy", Paydb, railproxy.Migrate},
	}
}

// The two databases.
const (
	Lockdb = "lockdb"
	Paydb  = "paydb"
)

// Role is a login role of a service, in the database that it is made in.
type Role struct {
	Name, Database string
}

// Roles are all of them. A role belongs to the whole server: where the two databases share one, so do the roles.
var Roles = []Role{{"lockapp", Lockdb}, {"payapp", Paydb}, {"railapp", Paydb}, {"reconciler", Paydb}}

// Options say what to migrate.
type Options struct {
	// URLs of the two databases, as a role that may create tables and roles there.
	LockdbURL, PaydbURL string
	// Passwords by role; a role that is not in it keeps its own.
	Passwords map[string]string
}

// Step is one thing that was done or found in place.
type Step struct {
	Database string `json:"database"`
	What     string `json:"what"` // such as "payment_resource tables" or "password of payapp"
	Result   string `json:"result"`
}

// ErrOptions is wrapped by the errors of Run about what it was asked to do; nothing was done then.
var ErrOptions = errors.New("not usable")

// Run migrates both databases. It returns what it did, also when it stops at an error.
func Run(ctx context.Context, o Options) ([]Step, error) {
	verifiers := make(map[string]string, len(o.Passwords))
	for role, password := range o.Passwords {
		verifier, err := scramVerifier(password)
		if err != nil {
			return nil, fmt.Errorf("password of %s: %w: %w", role, ErrOptions, err)
		}
		verifiers[role] = verifier
	}
	urls := map[string]string{Lockdb: o.LockdbURL, Paydb: o.PaydbURL}
	for database, url := range urls {
		if _, err := pgx.ParseConfig(url); err != nil {
			return nil, fmt.Errorf("URL of %s: %w: not a PostgreSQL URL", database, ErrOptions) // the parse error may show the password
		}
	}
	var steps []Step
	for _, owner := range owners() {
		result, err := applyOne(ctx, owner, urls[owner.database])
		if err != nil {
			return steps, fmt.Errorf("%s: %w", owner.database, err)
		}
		steps = append(steps, Step{owner.database, "tables of " + owner.name, result})
	}
	for _, role := range Roles {
		result, err := setPassword(ctx, urls[role.Database], role.Name, verifiers[role.Name])
		if err != nil {
			return steps, fmt.Errorf("%s: password of %s: %w", role.Database, role.Name, err)
		}
		steps = append(steps, Step{role.Database, "password of " + role.Name, result})
	}
	return steps, nil
}

func applyOne(ctx context.Context, o owner, url string) (string, error) {
	before, err := version(ctx, url, o.name)
	if err != nil {
		return "", err
	}
	if err := o.apply(ctx, url); err != nil {
		return "", err
	}
	after, err := version(ctx, url, o.name)
	switch {
	case err != nil:
		return "", err
	case after == before:
		return fmt.Sprintf("in place (version %d)", after), nil
	}
	return fmt.Sprintf("migrated from version %d to %d", before, after), nil
}

// connectTimeout bounds the first contact with a database.
const connectTimeout = 5 * time.Second

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout = connectTimeout
	return pgx.ConnectConfig(ctx, config)
}

// version is the last applied migration of an owner, 0 before the first.
func version(ctx context.Context, url, owner string) (applied int64, err error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	table := pgx.Identifier{"public", owner + "_schema_version"}.Sanitize()
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+table).Scan(&applied)
	return applied, err
}

func setPassword(ctx context.Context, url, role, verifier string) (result string, err error) {
	if verifier == "" {
		return "left as it is (none given)", nil
	}
	conn, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	// ALTER ROLE takes no parameters; the server quotes both parts.
	var statement string
	if err := conn.QueryRow(ctx, "SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', $1::text, $2::text)", role, verifier).Scan(&statement); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, statement); err != nil {
		return "", err
	}
	return "set", nil
}
