package pglock_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire stands between a pool and PostgreSQL. It can be cut, and it can swallow the answer to a statement
// that took effect, breaking the connection instead.
type wire struct {
	url string

	t        testing.TB
	target   string
	listener net.Listener
	carrying sync.WaitGroup

	mu    sync.Mutex
	lose  int
	isCut bool
	conns map[net.Conn]struct{}
}

func newWire(t testing.TB, database string) *wire {
	u, err := url.Parse(database)
	require.NoError(t, err)
	w := &wire{t: t, target: u.Host, conns: make(map[net.Conn]struct{})}
	w.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u.Host = w.listener.Addr().String()
	w.url = u.String()
	w.carrying.Go(w.accept)
	t.Cleanup(func() {
		_ = w.listener.Close()
		w.cut()
		w.carrying.Wait()
	})
	return w
}

func (w *wire) loseAnswers(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = n
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for conn := range w.conns {
		_ = conn.Close()
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil || !w.keep(client, server) {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		w.carrying.Go(func() {
			_, _ = io.Copy(server, client)
			w.drop(client, server)
		})
		w.carrying.Go(func() {
			w.carryAnswers(client, server)
			w.drop(client, server)
		})
	}
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		w.conns[conn] = struct{}{}
	}
	return !w.isCut
}

func (w *wire) drop(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(w.conns, conn)
	}
}

// carryAnswers copies the server's messages one by one: a type byte, a length that includes itself, a body. DataRow ("D") and
// CommandComplete ("C") are an answer; by the time that ReadyForQuery ("Z") comes, the statement is committed.
func (w *wire) carryAnswers(client, server net.Conn) {
	losing := false
	header := make([]byte, 5)
	for {
		if _, err := io.ReadFull(server, header); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		switch {
		case (header[0] == 'D' || header[0] == 'C') && !losing:
			losing = w.takeLoss()
		case header[0] == 'Z' && losing:
			return
		}
		if losing {
			continue
		}
		if _, err := client.Write(append(header[:5:5], body...)); err != nil {
			return
		}
	}
}

func (w *wire) takeLoss() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lose == 0 {
		return false
	}
	w.lose--
	return true
}
