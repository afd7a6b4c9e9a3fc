package rail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"railguard/services/httpclient"
	"railguard/services/railapi"
)

// maxTransfers bounds what a look-up may bring into a workflow's history.
const maxTransfers = 100

// Lookup asks the rail which transfers it knows under a client reference. It reads only, and may be repeated. None
// found does not mean that none was made.
func (r *Rail) Lookup(ctx context.Context, clientRef string) ([]railapi.Transfer, error) {
	var answer struct {
		Transfers []railapi.Transfer `json:"transfers"`
	}
	err := r.reads.Do(ctx, httpclient.Call{Method: http.MethodGet, Path: "/transfers", Query: url.Values{"clientRef": {clientRef}}}, &answer)
	if err != nil {
		return nil, err
	}
	if answer.Transfers == nil || len(answer.Transfers) > maxTransfers {
		return nil, fmt.Errorf("the rail's look-up answered with %d transfers; want a list of at most %d", len(answer.Transfers), maxTransfers)
	}
	for _, t := range answer.Transfers {
		// Settling a payout on another one's transfer would be worse than not knowing.
		if t.ClientRef != clientRef || !referencePattern.MatchString(t.RailReference) {
			return nil, errors.New("the rail's look-up answered with a transfer that was not asked for")
		}
	}
	return answer.Transfers, nil
}

// Reachable reports whether the rail accepts connections. It sends nothing.
func (r *Rail) Reachable(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", r.address())
	if err != nil {
		return fmt.Errorf("the rail is not reachable: %w", err)
	}
	return conn.Close()
}

// Timeout bounds one submission.
func (r *Rail) Timeout() time.Duration { return r.timeout }
