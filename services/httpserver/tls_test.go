package httpserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"railguard/services/httpclient"
	"railguard/services/httpserver"
)

// authority signs certificates for the loopback address.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", nil)
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name+".pem") }

// issue writes <name>.pem and <name>-key.pem, signed by the authority, or by itself when it is the authority.
func (a *authority) issue(t *testing.T, name string, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(a.path(name+"-key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	return cert, key
}

// With a CA file the server takes only callers with a certificate of that CA, and the typed clients present theirs.
func TestMutualTLS(t *testing.T) {
	ca := newAuthority(t)
	ca.issue(t, "server", ca)
	ca.issue(t, "caller", ca)
	stranger := newAuthority(t)
	stranger.issue(t, "stranger", stranger)

	s, err := httpserver.New(httpserver.Options{Service: "test", Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), OpenReads: true,
		TLSCertFile: ca.path("server"), TLSKeyFile: ca.path("server-key"), TLSCAFile: ca.path("ca")})
	require.NoError(t, err)
	s.API.GET("/x", s.Handle(func(*gin.Context) (int, any, error) { return http.StatusOK, gin.H{}, nil }))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, time.Second) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })

	get := func(certFile, keyFile, caFile string) error {
		config, err := httpserver.ClientTLS(certFile, keyFile, caFile)
		require.NoError(t, err)
		client, err := httpclient.New("https://"+s.Addr(), httpclient.Identity{TLS: config}, httpclient.Hop{Connect: 5 * time.Second, Whole: 10 * time.Second})
		require.NoError(t, err)
		defer client.CloseIdle()
		return client.Do(t.Context(), httpclient.Call{Method: http.MethodGet, Path: "/v1/x"}, nil)
	}
	require.NoError(t, get(ca.path("caller"), ca.path("caller-key"), ca.path("ca")))
	require.Error(t, get("", "", ca.path("ca")), "a caller without a certificate")
	require.Error(t, get(stranger.path("stranger"), stranger.path("stranger-key"), ca.path("ca")), "a caller with another CA's certificate")
	require.Error(t, get(ca.path("caller"), ca.path("caller-key"), stranger.path("ca")), "a caller that does not trust the server")
}
