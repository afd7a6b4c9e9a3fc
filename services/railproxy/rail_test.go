package railproxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// testRail is a rail made of bare sockets: it counts what it reads and answers with whatever bytes a test wants.
type testRail struct {
	listener net.Listener

	mu       sync.Mutex
	accepted int
	requests []*http.Request // their bodies were read
	bodies   []string
}

// startRail serves until the test ends. answer is given the connection after a request was read to its end;
// the connection is closed when it returns.
func startRail(t *testing.T, answer func(conn net.Conn, nth int)) *testRail {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &testRail{listener: listener}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Add(1)
	go func() {
		defer serving.Done()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Add(1)
			go func() {
				defer serving.Done()
				r.serve(conn, answer)
			}()
		}
	}()
	return r
}

// serve keeps reading requests from one connection, as a server that offers keep-alive does.
func (r *testRail) serve(conn net.Conn, answer func(net.Conn, int)) {
	defer func() { _ = conn.Close() }()
	r.mu.Lock()
	r.accepted++
	r.mu.Unlock()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return // a look whether the rail is reachable
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.requests = append(r.requests, request)
	r.bodies = append(r.bodies, string(body))
	nth := len(r.requests)
	r.mu.Unlock()
	answer(conn, nth)
}

func (r *testRail) url() string { return "http://" + r.listener.Addr().String() }

// count is how many requests were read to their end.
func (r *testRail) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// connections is how many connections were made.
func (r *testRail) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

func (r *testRail) request(nth int) (*http.Request, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[nth-1], r.bodies[nth-1]
}

// send answers with bytes as they are.
func send(raw string) func(net.Conn, int) {
	return func(conn net.Conn, _ int) { _, _ = io.WriteString(conn, raw) }
}

const acceptedBody = `{"status":"ACCEPTED","railReference":"RAIL-1"}`

// acknowledged is what a well-behaved rail sends.
const acknowledged = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 46\r\nConnection: close\r\n\r\n" + acceptedBody
