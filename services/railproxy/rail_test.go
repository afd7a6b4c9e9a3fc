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

// answering is given the connection after the nth request was read to its end, and says whether the
// connection stays open for another request.
type answering func(conn net.Conn, nth int) (keepOpen bool)

// startRail serves until the test ends.
func startRail(t *testing.T, answer answering) *testRail {
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

func (r *testRail) serve(conn net.Conn, answer answering) {
	defer func() { _ = conn.Close() }()
	r.mu.Lock()
	r.accepted++
	r.mu.Unlock()
	reader := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return // among others, a look whether the rail is reachable
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
		if !answer(conn, nth) {
			return
		}
	}
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

// send answers with bytes as they are, in pieces, and closes the connection.
func send(pieces ...string) answering {
	return func(conn net.Conn, _ int) bool {
		for _, piece := range pieces {
			_, _ = io.WriteString(conn, piece) // the other side may be gone
		}
		return false
	}
}

// held is a rail that reads a request, says so on arrived, and answers once release was called.
type held struct {
	arrived chan struct{}
	once    sync.Once
	open    chan struct{}
}

func newHeld() *held { return &held{arrived: make(chan struct{}, 64), open: make(chan struct{})} }

func (h *held) release() { h.once.Do(func() { close(h.open) }) }

func (h *held) answer(then answering) answering {
	return func(conn net.Conn, nth int) bool {
		h.arrived <- struct{}{}
		<-h.open
		return then(conn, nth)
	}
}

const acceptedBody = `{"status":"ACCEPTED","railReference":"RAIL-1"}`

// acknowledged is what a well-behaved rail sends.
const acknowledged = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 46\r\nConnection: close\r\n\r\n" + acceptedBody
