package lockapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
)

func TestBackoffIsFullJitterWithinItsBound(t *testing.T) {
	for range 1000 {
		require.Less(t, backoff(apierr.New(apierr.LockContended, "m"), acquireFirstWait), acquireFirstWait)
	}
	excessive := apierr.New(apierr.ContentionExceeded, "m").RetryAfter(time.Hour)
	require.Equal(t, acquireMaxWait, backoff(excessive, acquireFirstWait), "no answer makes a step wait for ever")
}

func TestAcquireBoundCoversEveryTryAndEveryPause(t *testing.T) {
	require.Equal(t, 5*(2*time.Second+acquireOverhead)+4*time.Second, AcquireBound(2*time.Second))
}
