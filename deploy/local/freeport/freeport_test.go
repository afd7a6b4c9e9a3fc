package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/deploy/local/freeport"
)

func TestPickedPortCanBeListenedOnAndIsNotFreeMeanwhile(t *testing.T) {
	port, err := freeport.Pick()
	require.NoError(t, err)
	require.Less(t, port, 32768, "outgoing connections are given ports from 32768 up")
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	require.NoError(t, err)
	require.False(t, freeport.Free(port))
	require.NoError(t, l.Close())
	require.True(t, freeport.Free(port))
}
