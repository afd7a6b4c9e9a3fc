package lockserver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/httpclient"
	"railguard/services/httpserver"
	"railguard/services/lockapi"
)

func TestTypedClientAcquiresRenewsAndReleases(t *testing.T) {
	t.Parallel()
	s := boot(t)
	ctx := context.Background()
	client, err := lockapi.NewClient(s.base, httpclient.Identity{Bearer: bearerOf(httpserver.Executor)})
	require.NoError(t, err)

	g, err := client.Acquire(ctx, "payout:a", "run-1", lockapi.AcquireRequest{TTLMillis: 5000})
	require.NoError(t, err)
	require.EqualValues(t, 5000, g.TTLMillis)
	require.True(t, g.FencingToken.Valid())

	again, err := client.Acquire(ctx, "payout:a", "run-1", lockapi.AcquireRequest{TTLMillis: 5000})
	require.NoError(t, err)
	require.Equal(t, g.FencingToken, again.FencingToken)

	_, err = client.Acquire(ctx, "payout:a", "run-2", lockapi.AcquireRequest{TTLMillis: 5000})
	require.Equal(t, apierr.LockContended, apierr.CodeOf(err))

	renewed, err := client.Renew(ctx, g.FencingToken, "payout:a", "run-1", 6*time.Second)
	require.NoError(t, err)
	require.Equal(t, g.FencingToken, renewed.FencingToken)
	require.True(t, renewed.ExpiresAt.After(again.ExpiresAt))

	require.NoError(t, client.Release(ctx, g.FencingToken, "payout:a", "run-1"))
	next, err := client.Acquire(ctx, "payout:a", "run-2", lockapi.AcquireRequest{})
	require.NoError(t, err)
	require.Greater(t, next.FencingToken, g.FencingToken)
	require.EqualValues(t, 30_000, next.TTLMillis)
}
