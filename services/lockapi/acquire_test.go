package lockapi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/httpclient"
	"railguard/services/lockapi"
)

var (
	contended = refusing(apierr.New(apierr.LockContended, "held by another"))
	request   = lockapi.AcquireRequest{TTLMillis: 30_000}
)

func TestAcquireAsksFiveTimesAtMost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers  []http.HandlerFunc
		requests int
		code     apierr.Code // "" when it is granted
		noAnswer bool
	}{
		"granted at once":                       {[]http.HandlerFunc{granting(time.Minute)}, 1, "", false},
		"granted at the fifth try":              {[]http.HandlerFunc{contended, contended, contended, contended, granting(time.Minute)}, 5, "", false},
		"contended to the end":                  {[]http.HandlerFunc{contended}, 5, apierr.LockContended, false},
		"no leader to the end":                  {[]http.HandlerFunc{refusing(apierr.New(apierr.NotLeader, "m"))}, 5, apierr.NotLeader, false},
		"a lost answer is asked for again":      {[]http.HandlerFunc{dropping, granting(time.Minute)}, 2, "", false},
		"the server's failure is asked again":   {[]http.HandlerFunc{refusing(apierr.New(apierr.Internal, "m")), granting(time.Minute)}, 2, "", false},
		"no answer to the end":                  {[]http.HandlerFunc{dropping}, 5, "", true},
		"a refusal of the request ends it":      {[]http.HandlerFunc{refusing(apierr.New(apierr.ValidationFailed, "m"))}, 1, apierr.ValidationFailed, false},
		"a refusal of the caller ends it":       {[]http.HandlerFunc{refusing(apierr.New(apierr.Forbidden, "m"))}, 1, apierr.Forbidden, false},
		"a grant to somebody else is no grant":  {[]http.HandlerFunc{grantingTo(token, "run-2", time.Minute)}, 5, "", true},
		"a grant without a token is no grant":   {[]http.HandlerFunc{grantingTo(0, owner, time.Minute)}, 5, "", true},
		"a grant without a lease is no grant":   {[]http.HandlerFunc{granting(0)}, 5, "", true},
		"a waiter too many is asked again":      {[]http.HandlerFunc{refusing(apierr.New(apierr.ContentionExceeded, "m")), granting(time.Minute)}, 2, "", false},
		"an unusable grant is asked for anew":   {[]http.HandlerFunc{granting(0), granting(time.Minute)}, 2, "", false},
		"another's page is asked for once more": {[]http.HandlerFunc{http.NotFound, granting(time.Minute)}, 2, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, p := serve(t, c.answers...)
			got, err := client.AcquireWithin(context.Background(), key, owner, request)
			require.Len(t, p.requests, c.requests)
			for range c.requests {
				require.Equal(t, owner, (<-p.requests).Header.Get(httpclient.HeaderOwnerID), "always the same owner: it gets the same token back")
			}
			if c.code != "" || c.noAnswer {
				require.Error(t, err)
				require.Equal(t, c.code, apierr.CodeOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, token, got.Grant.FencingToken)
		})
	}
}

func TestTheTimeSpentCountsUpToTheTryThatWasGranted(t *testing.T) {
	t.Parallel()
	const refused, granted = 80 * time.Millisecond, 300 * time.Millisecond
	client, _ := serve(t, after(refused, contended), after(refused, contended), after(granted, granting(time.Minute)))
	began := time.Now()
	got, err := client.AcquireWithin(context.Background(), key, owner, request)
	took := time.Since(began)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Spent, 2*refused, "the refused tries count")
	require.LessOrEqual(t, got.Spent, took-granted, "the granted one does not: the lease began during it")
}

func TestTheServersOwnWaitIsHonoured(t *testing.T) {
	t.Parallel()
	const wait = 200 * time.Millisecond
	client, _ := serve(t, refusing(apierr.New(apierr.ContentionExceeded, "m").RetryAfter(wait)), granting(time.Minute))
	got, err := client.AcquireWithin(context.Background(), key, owner, request)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Spent, wait)
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	t.Parallel()
	client, p := serve(t, refusing(apierr.New(apierr.ContentionExceeded, "m").RetryAfter(time.Minute)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := client.AcquireWithin(ctx, key, owner, request)
		ended <- err
	}()
	<-p.requests
	cancel()
	require.Error(t, <-ended)
}
