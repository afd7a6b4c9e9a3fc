package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"railguard/deploy/local/profile"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/settings"
)

// target is the running system that a command talks to.
type target struct {
	profilePath, paymentURL, lockURL, tokenFile string // flags
}

// environment is what the variables say about it.
type environment struct {
	LockServerURL      string `envconfig:"LOCK_SERVER_URL"`
	PaymentResourceURL string `envconfig:"PAYMENT_RESOURCE_URL"`
	RailStubURL        string `envconfig:"RAIL_STUB_URL"`
	PaydbURL           string `envconfig:"PAYDB_URL" secret:"true"`
	TaskQueue          string `envconfig:"TASK_QUEUE"`
	TokenFile          string `envconfig:"RAILGUARD_TOKEN_FILE"`
	TLSCertFile        string `envconfig:"TLS_CERT_FILE"`
	TLSKeyFile         string `envconfig:"TLS_KEY_FILE"`
	TLSCAFile          string `envconfig:"TLS_CA_FILE"`
}

func (t *target) profileFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&t.profilePath, "profile", "", "profile of the running stack (default: $"+profile.Variable+", else the one that railguard dev left)")
}

func (t *target) serviceFlags(cmd *cobra.Command, name string, url *string) {
	t.profileFlag(cmd)
	cmd.PersistentFlags().StringVar(url, name+"-url", "", "base URL of "+name+" (default: $"+variableOf(name)+", else the profile's)")
	cmd.PersistentFlags().StringVar(&t.tokenFile, "token-file", "", "file that holds the bearer token (default: $RAILGUARD_TOKEN_FILE, else the profile's)")
}

func variableOf(service string) string {
	return strings.ToUpper(strings.ReplaceAll(service, "-", "_")) + "_URL"
}

func loadEnvironment() (*environment, error) {
	var e environment
	if err := settings.Load(&e); err != nil {
		return nil, &inputError{err}
	}
	return &e, nil
}

// profile is the profile in force; profile.ErrNone, wrapped, when there is none.
func (t *target) profile() (*profile.Profile, error) {
	load := profile.Load
	if t.profilePath != "" {
		load = func() (*profile.Profile, error) { return profile.LoadFile(t.profilePath) }
	}
	p, err := load()
	if err != nil {
		return nil, &inputError{err}
	}
	return p, nil
}

// fromProfile takes one value of the profile where neither flag nor variable gave it.
func (t *target) fromProfile(variable string, value func(*profile.Profile) string) (string, error) {
	p, err := t.profile()
	if err != nil {
		return "", badInput("%s is not set, and %w", variable, err)
	}
	if value(p) == "" {
		return "", badInput("%s is not set, and the profile does not say it", variable)
	}
	return value(p), nil
}

// service is a service's base URL and what to present to it. The profile's bearer tokens go to the
// profile's services alone: a token must not leak to whatever URL a variable happens to name.
func (t *target) service(name, flag string, role httpserver.Role, variable func(*environment) string,
	inProfile func(*profile.Profile) string) (string, httpclient.Identity, error) {
	e, err := loadEnvironment()
	if err != nil {
		return "", httpclient.Identity{}, err
	}
	base := firstOf(flag, variable(e))
	tokenFile := firstOf(t.tokenFile, e.TokenFile)
	if base == "" || tokenFile == "" {
		known, err := t.fromProfile(variableOf(name), inProfile)
		switch {
		case base == "" && err != nil:
			return "", httpclient.Identity{}, err
		case base == "":
			base = known
		case err != nil || base != known:
			return "", httpclient.Identity{}, badInput("RAILGUARD_TOKEN_FILE or --token-file must be given with the URL %s of %s", base, name)
		}
	}
	if tokenFile == "" {
		if tokenFile, err = t.roleToken(role); err != nil {
			return "", httpclient.Identity{}, err
		}
	}
	id, err := identity(e, tokenFile)
	if err != nil {
		return "", httpclient.Identity{}, &inputError{err}
	}
	return base, id, nil
}

// roleToken is the profile's token file of a role; any other will do for a reader.
func (t *target) roleToken(role httpserver.Role) (string, error) {
	p, err := t.profile()
	if err != nil {
		return "", err
	}
	candidates := []httpserver.Role{role}
	if role == httpserver.Reader {
		candidates = append(candidates, httpserver.AnyRole...)
	}
	for _, candidate := range candidates {
		if path := p.Tokens[string(candidate)]; path != "" {
			return path, nil
		}
	}
	return "", badInput("RAILGUARD_TOKEN_FILE is not set, and the profile has no bearer token of role %s", role)
}

func identity(e *environment, tokenFile string) (httpclient.Identity, error) {
	bearer, err := os.ReadFile(tokenFile)
	if err != nil {
		return httpclient.Identity{}, fmt.Errorf("the bearer token: %w", err)
	}
	config, err := e.tls()
	if err != nil {
		return httpclient.Identity{}, err
	}
	return httpclient.Identity{Bearer: strings.TrimSpace(string(bearer)), TLS: config}, nil
}

func (e *environment) tls() (*tls.Config, error) {
	return httpserver.ClientTLS(e.TLSCertFile, e.TLSKeyFile, e.TLSCAFile)
}

// payments is a client of payment-resource that may do what role may.
func (t *target) payments(role httpserver.Role) (*paymentapi.Client, error) {
	base, id, err := t.service("payment-resource", t.paymentURL, role,
		func(e *environment) string { return e.PaymentResourceURL },
		func(p *profile.Profile) string { return p.PaymentResource })
	if err != nil {
		return nil, err
	}
	c, err := paymentapi.NewClient(base, id)
	if err != nil {
		return nil, badInput("payment-resource: %w", err)
	}
	return c, nil
}

// locks is a client of the lock-server that may do what role may.
func (t *target) locks(role httpserver.Role) (*lockapi.Client, error) {
	base, id, err := t.service("lock-server", t.lockURL, role,
		func(e *environment) string { return e.LockServerURL },
		func(p *profile.Profile) string { return p.LockServer })
	if err != nil {
		return nil, err
	}
	c, err := lockapi.NewClient(base, id)
	if err != nil {
		return nil, badInput("lock-server: %w", err)
	}
	return c, nil
}

// dialTimeout bounds the first contact with Temporal and with a database.
const dialTimeout = 5 * time.Second

// temporal connects to Temporal: by its own configuration (TEMPORAL_ADDRESS, …, or a TOML profile), else by
// the stack's profile. The task queue is that of the payouts' worker.
func (t *target) temporal(ctx context.Context) (client.Client, string, error) {
	e, err := loadEnvironment()
	if err != nil {
		return nil, "", err
	}
	settings, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return nil, "", badInput("Temporal's configuration: %w", err)
	}
	queue := firstOf(e.TaskQueue, "payouts")
	if settings.Address == "" {
		p, err := t.profile()
		if err != nil {
			return nil, "", badInput("TEMPORAL_ADDRESS is not set, and %w", err)
		}
		settings.Address = p.TemporalAddress
		settings.Namespace = firstOf(settings.Namespace, p.TemporalNamespace)
		queue = firstOf(e.TaskQueue, p.TaskQueue, queue)
	}
	options, err := settings.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return nil, "", badInput("Temporal's configuration: %w", err)
	}
	options.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := client.DialContext(dialing, options)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, "", unreachable("Temporal at %s: %w", options.HostPort, err)
	}
	return c, queue, nil
}

// ownerPart is what an owner id may not hold.
var ownerPart = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// person is the name of whoever runs the command, for the records: "unknown" where the system cannot tell.
func person() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "unknown"
	}
	return u.Username
}

// ownerID is what the services record as the writer.
func ownerID() string {
	name := ownerPart.ReplaceAllString(person(), "-")
	return "cli:" + name[:min(len(name), 60)]
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
