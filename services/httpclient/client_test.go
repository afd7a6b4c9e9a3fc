package httpclient_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
	"railguard/services/fencing"
	"railguard/services/httpclient"
)

var hop = httpclient.Hop{Connect: time.Second, Whole: 2 * time.Second, Retries: 2}

func answering(t *testing.T, status int, body string) (*httptest.Server, *atomic.Int64) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s, &calls
}

func TestAnAnswerIsABodyAnEnvelopeOrNothingKnown(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   apierr.Code // "" for an AnswerError
		ok     bool
	}{
		"body":                        {200, `{"a":1,"later":true}`, "", true},
		"a success that is no JSON":   {200, `<html>`, "", false},
		"a truncated success":         {200, `{"a":`, "", false},
		"the service's own refusal":   {409, `{"code":"FENCED_OUT","message":"m"}`, apierr.FencedOut, false},
		"a code with another status":  {500, `{"code":"FENCED_OUT","message":"m"}`, "", false},
		"a code that is not known":    {409, `{"code":"SOMETHING","message":"m"}`, "", false},
		"a proxy's page":              {502, `<html>bad gateway</html>`, "", false},
		"a redirect is not followed":  {302, ``, "", false},
		"an envelope without a code":  {400, `{}`, "", false},
		"the service's own 500":       {500, `{"code":"INTERNAL","message":"m"}`, apierr.Internal, false},
		"unavailable, and it says so": {503, `{"code":"RAIL_UNAVAILABLE","message":"m"}`, apierr.RailUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, calls := answering(t, c.status, c.body)
			client, err := httpclient.New(s.URL, httpclient.Identity{}, hop)
			require.NoError(t, err)
			var out struct{ A int }
			err = client.Do(context.Background(), httpclient.Call{Method: http.MethodPost, Path: "/x"}, &out)
			require.Equal(t, int64(1), calls.Load(), "a write is sent once")
			if c.ok {
				require.NoError(t, err)
				require.Equal(t, 1, out.A)
				return
			}
			require.Error(t, err)
			require.Equal(t, c.code, apierr.CodeOf(err))
			if c.code == "" {
				var answer *httpclient.AnswerError
				require.ErrorAs(t, err, &answer)
				require.Equal(t, c.status, answer.Status)
			}
		})
	}
}

func TestOnlyReadsAreRepeated(t *testing.T) {
	s, calls := answering(t, 503, `{"code":"NOT_LEADER","message":"m"}`)
	client, err := httpclient.New(s.URL, httpclient.Identity{}, hop)
	require.NoError(t, err)
	require.Error(t, client.Do(context.Background(), httpclient.Call{Method: http.MethodGet, Path: "/x"}, nil))
	require.Equal(t, int64(3), calls.Load())
	require.Error(t, client.Do(context.Background(), httpclient.Call{Method: http.MethodDelete, Path: "/x"}, nil))
	require.Equal(t, int64(4), calls.Load())
}

func TestARefusedConnectionIsProvablyUnwritten(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	client, err := httpclient.NewOnce("http://"+l.Addr().String(), httpclient.Identity{}, hop)
	require.NoError(t, err)
	err = client.Do(context.Background(), httpclient.Call{Method: http.MethodPost, Path: "/x", Body: map[string]int{"a": 1}}, nil)
	var transport *httpclient.TransportError
	require.ErrorAs(t, err, &transport)
	require.True(t, transport.NothingWritten)
}

// dropper reads a whole request and closes the connection without an answer. The first answers of a
// connection are given, so that a client that reuses connections has one to reuse.
func dropper(t *testing.T, answers int) (string, *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var requests atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				reader := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if n := requests.Add(1); n > int64(answers) {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), &requests
}

func TestOnceIsSentOnceWhenTheConnectionDies(t *testing.T) {
	base, requests := dropper(t, 1)
	client, err := httpclient.NewOnce(base, httpclient.Identity{}, hop)
	require.NoError(t, err)
	call := httpclient.Call{Method: http.MethodPost, Path: "/x", Token: 1, IdempotencyKey: "k", Body: map[string]int{"a": 1}}
	require.NoError(t, client.Do(context.Background(), call, nil))
	err = client.Do(context.Background(), call, nil)
	var transport *httpclient.TransportError
	require.ErrorAs(t, err, &transport)
	require.False(t, transport.NothingWritten)
	require.Equal(t, int64(2), requests.Load(), "one request for each call")
}

// The control: Go's transport does replay a request with an idempotency key when a reused connection
// dies, which is why NewOnce exists.
func TestTheStandardTransportWouldReplay(t *testing.T) {
	base, requests := dropper(t, 1)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	post := func() error {
		req, err := http.NewRequest(http.MethodPost, base, http.NoBody)
		require.NoError(t, err)
		req.Header.Set(httpclient.HeaderIdempotencyKey, "k")
		res, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			err = res.Body.Close()
		}
		return err
	}
	require.NoError(t, post())
	require.Error(t, post())
	require.Equal(t, int64(3), requests.Load(), "two calls, three requests")
}

func TestAMissingTokenIsAProgrammingError(t *testing.T) {
	require.Panics(t, func() { _ = httpclient.RequireToken(0) })
	require.Panics(t, func() { _ = httpclient.RequireToken(-1) })
	require.NoError(t, httpclient.RequireToken(fencing.Token(1)))
}

func TestNewRefusesWhatIsNoURL(t *testing.T) {
	for _, base := range []string{"", "localhost:80", "ftp://x", "http://", "://"} {
		_, err := httpclient.New(base, httpclient.Identity{}, hop)
		require.Error(t, err, base)
	}
}
