// Package freeport picks TCP ports for processes that are told theirs when they start.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// The range lies below the ports that Linux hands out to outgoing connections and to listeners on port 0
// (32768 and up): a process that was killed can be started again on its port, because nobody got it by chance meanwhile.
const (
	first = 20_000
	last  = 32_767
	tries = 200
)

// Pick returns a port on 127.0.0.1 on which nobody listens now. Somebody may be faster than the caller, who must
// then pick again.
func Pick() (int, error) {
	for range tries {
		port := first + rand.IntN(last-first+1)
		if Free(port) {
			return port, nil
		}
	}
	return 0, errors.New("found no free port between 20000 and 32767")
}

// Free reports whether a process could listen on the port of 127.0.0.1 now.
func Free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close() // nothing was accepted on it
	return true
}
