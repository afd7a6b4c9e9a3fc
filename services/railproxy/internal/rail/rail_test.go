package rail

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/railapi"
)

func transfer() Transfer { return Transfer{ClientRef: "p-1", AmountMinor: 1, Currency: "EUR"} }

func TestForwardOverTLS(t *testing.T) {
	t.Parallel()
	var received atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received.Add(1)
		if r.Proto != "HTTP/1.1" || r.URL.Path != "/bank/submit" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, `{"status":"ACCEPTED","railReference":"R-1"}`)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())

	trusted, err := New(server.URL+"/bank", time.Minute, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	got := trusted.Forward(t.Context(), transfer(), time.Now().Add(time.Minute))
	require.Equal(t, Result{Outcome: railapi.Acked, RailReference: "R-1"}, got)
	require.EqualValues(t, 1, received.Load())

	// A rail that cannot prove who it is gets nothing.
	untrusted, err := New(server.URL+"/bank", time.Minute, nil)
	require.NoError(t, err)
	require.Equal(t, railapi.Unsent, untrusted.Forward(t.Context(), transfer(), time.Now().Add(time.Minute)).Outcome)
	require.EqualValues(t, 1, received.Load())
}

func TestForwardWritesNothingAfterItsTime(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	read := make(chan []byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			close(read)
			return
		}
		defer func() { _ = conn.Close() }()
		all, _ := io.ReadAll(conn)
		read <- all
	}()
	r, err := New("http://"+listener.Addr().String(), time.Minute, nil)
	require.NoError(t, err)
	require.Equal(t, railapi.Unsent, r.Forward(t.Context(), transfer(), time.Now().Add(-time.Nanosecond)).Outcome)
	got, connected := <-read
	require.True(t, connected)
	require.Empty(t, got)
}

func TestParseURLRefusesWhatIsNoPlainAddress(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "rail:8090", "//rail", "ftp://rail", "http://", "http://:80", "http://u@rail", "http://rail?x=1", "http://rail#x"} {
		_, err := ParseURL(text)
		require.Error(t, err, text)
	}
	for _, text := range []string{"http://rail", "https://rail:8443/v2", "http://[::1]:80"} {
		_, err := ParseURL(text)
		require.NoError(t, err, text)
	}
}
