// Package cluster boots the whole system as real processes for a test, and reads the evidence of what they
// did as a user would: over HTTP, Temporal and the databases.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"railguard/deploy/local"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
	"railguard/services/paymentapi"
	"railguard/services/railapi"
	"railguard/services/stubapi"
)

// Owner is the X-Owner-Id under which the tests act.
const Owner = "test"

var build struct {
	once sync.Once
	dir  string
	err  error
}

// Binary builds the railguard binary once per test process and returns its path. RemoveBinary cleans up.
func Binary() (string, error) {
	build.once.Do(func() {
		build.dir, build.err = os.MkdirTemp("", "railguard-bin-")
		if build.err != nil {
			return
		}
		build.err = os.Chmod(build.dir, 0o755)
		out, err := exec.Command("go", "build", "-o", filepath.Join(build.dir, "railguard"), "railguard").CombinedOutput()
		if err != nil {
			build.err = fmt.Errorf("go build: %w: %s", err, out)
		}
	})
	return filepath.Join(build.dir, "railguard"), build.err
}

// RemoveBinary removes what Binary built.
func RemoveBinary() {
	if build.dir != "" {
		_ = os.RemoveAll(build.dir)
	}
}

// Cluster is a running system with a client for each of its surfaces.
type Cluster struct {
	*local.Stack

	Lock     *lockapi.Client    // as executor
	Revoker  *lockapi.Client    // as operator
	Payment  *paymentapi.Client // as executor
	Intake   *paymentapi.Client // as intake
	Operator *paymentapi.Client // as operator
	Resolver *paymentapi.Client // as resolver
	Rail     *railapi.Client    // as executor
	RailOps  *railapi.Client    // as operator
	Stub     *stubapi.Client
	Temporal client.Client
	Paydb    *pgxpool.Pool // the SELECT-only role
}

// Boot starts a system with no worker on free ports. The caller stops it with Close.
func Boot(ctx context.Context, o local.Options) (*Cluster, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	o.Binary, o.Volatile, o.NoWorker, o.Headless = binary, true, true, true
	stack, err := local.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Stack: stack}
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(err, stack.Stop())
	}
	return c, nil
}

func (c *Cluster) connect(ctx context.Context) error {
	var errs []error
	identity := func(name string) httpclient.Identity { return httpclient.Identity{Bearer: c.Bearer(name)} }
	lock := func(name string) *lockapi.Client {
		l, err := lockapi.NewClient(c.URL("lock-server"), identity(name))
		errs = append(errs, err)
		return l
	}
	payment := func(name string) *paymentapi.Client {
		p, err := paymentapi.NewClient(c.URL("payment-resource"), identity(name))
		errs = append(errs, err)
		return p
	}
	rail := func(name string) *railapi.Client {
		r, err := railapi.NewClient(c.URL("rail-proxy"), identity(name), 10*time.Second)
		errs = append(errs, err)
		return r
	}
	c.Lock, c.Revoker = lock("executor"), lock("operator")
	c.Payment, c.Intake, c.Operator, c.Resolver = payment("executor"), payment("intake"), payment("operator"), payment("resolver")
	c.Rail, c.RailOps = rail("executor"), rail("operator")
	var err error
	c.Stub, err = stubapi.NewClient(c.URL("rail-stub"))
	errs = append(errs, err)
	c.Paydb, err = pgxpool.New(ctx, c.ReaderURL())
	errs = append(errs, err)
	c.Temporal, err = client.Dial(client.Options{HostPort: c.TemporalAddress(), Logger: silent{}})
	return errors.Join(append(errs, err)...)
}

// Close stops the system and everything that was started with it.
func (c *Cluster) Close() error {
	c.Temporal.Close()
	c.Paydb.Close()
	return c.Stop()
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// NewAccount makes a funded account in EUR with a fresh id.
func (c *Cluster) NewAccount(t testing.TB, openingMinor int64) string {
	t.Helper()
	id := "acc-" + uuid.NewString()
	_, err := c.Intake.CreateAccount(t.Context(), Owner, paymentapi.CreateAccountRequest{AccountID: id, Currency: "EUR", OpeningMinor: openingMinor})
	require.NoError(t, err)
	return id
}

// NewPayout makes a PENDING payout; the rail will treat it as the faults say.
func (c *Cluster) NewPayout(t testing.TB, accountID string, amountMinor int64, faults ...stubapi.Fault) string {
	t.Helper()
	p, err := c.Intake.CreatePayout(t.Context(), Owner, paymentapi.CreatePayoutRequest{
		ExternalRef: uuid.NewString(), AccountID: accountID, AmountMinor: amountMinor, Currency: "EUR", BeneficiaryRef: "beneficiary-1"})
	require.NoError(t, err)
	for _, fault := range faults {
		fault.ClientRef = p.PayoutID
		require.NoError(t, c.Stub.AddFault(t.Context(), fault))
	}
	return p.PayoutID
}
