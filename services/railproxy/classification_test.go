package railproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"railguard/services/apierr"
)

// response is a complete HTTP/1.1 answer.
func response(status int, body string, headers ...string) string {
	head := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n", status, len(body))
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "\r\n" + body
}

func reset(conn net.Conn, _ int) bool {
	_ = conn.(*net.TCPConn).SetLinger(0)
	return false
}

// silent holds the connection open without an answer, after sending pieces, until the caller gives up.
func silent(pieces ...string) answering {
	return func(conn net.Conn, nth int) bool {
		send(pieces...)(conn, nth)
		_, _ = io.Copy(io.Discard, bufio.NewReader(conn))
		return false
	}
}

// classification is one row of the table of what the rail's answer means.
type classification struct {
	name   string
	answer answering
	want   apierr.Code // "" for the acknowledged 200
	silent bool        // the rail's timeout has to pass
}

func acknowledgements() []classification {
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	return []classification{
		{name: "acknowledged", answer: send(acknowledged)},
		{name: "acknowledged with 201", answer: send(response(201, acceptedBody))},
		{name: "acknowledged in pieces", answer: send(acknowledged[:9], acknowledged[9:70], acknowledged[70:])},
		{name: "acknowledged in chunks", answer: send(chunked, "10\r\n"+acceptedBody[:16]+"\r\n", fmt.Sprintf("%x\r\n", len(acceptedBody)-16)+acceptedBody[16:]+"\r\n0\r\n\r\n")},
		{name: "acknowledged, ended by closing", answer: send("HTTP/1.1 200 OK\r\n\r\n" + acceptedBody)},
		{name: "acknowledged with more fields", answer: send(response(200, `{"status":"ACCEPTED","railReference":"RAIL-1","at":{"zone":"UTC"}}`))},
		{name: "acknowledged and kept open", answer: silent(response(200, acceptedBody))},
		{name: "declined", answer: send(response(402, `{"status":"DECLINED"}`)), want: apierr.Rejected},
		{name: "declined without a body", answer: send(response(402, "")), want: apierr.Rejected},
	}
}

func ambiguities() []classification {
	rows := []classification{
		{name: "two acknowledgements in one body", answer: send(response(200, acceptedBody+"\n"+acceptedBody))},
		{name: "two answers", answer: send(response(200, acceptedBody) + response(200, acceptedBody))},
		{name: "declined, then acknowledged", answer: send(response(402, "{}") + response(200, acceptedBody))},
		{name: "declined, truncated", answer: send("HTTP/1.1 402 X\r\nContent-Length: 20\r\n\r\n{")},
		{name: "acknowledgement truncated", answer: send(acknowledged[:len(acknowledged)-5])},
		{name: "acknowledgement truncated, ended by closing", answer: send("HTTP/1.1 200 OK\r\n\r\n" + acceptedBody[:20])},
		{name: "chunk truncated", answer: send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2e\r\n" + acceptedBody[:10])},
		{name: "last chunk missing", answer: send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2e\r\n" + acceptedBody + "\r\n")},
		{name: "header truncated", answer: send("HTTP/1.1 200 OK\r\nContent-Le")},
		{name: "status line only", answer: send("HTTP/1.1 200")},
		{name: "not HTTP", answer: send("ACCEPTED RAIL-1\n")},
		{name: "two lengths", answer: send("HTTP/1.1 200 OK\r\nContent-Length: 46\r\nContent-Length: 3\r\n\r\n" + acceptedBody)},
		{name: "an interim answer only", answer: send("HTTP/1.1 100 Continue\r\n\r\n")},
		{name: "switching protocols", answer: send("HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")},
		{name: "no content", answer: send("HTTP/1.1 204 X\r\n\r\n")},
		{name: "endless header", answer: send("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n" + acceptedBody)},
		{name: "body too large", answer: send(response(200, `{"status":"ACCEPTED","railReference":"RAIL-1","x":"`+strings.Repeat("x", 20<<10)+`"}`))},
		{name: "closed without an answer", answer: func(net.Conn, int) bool { return false }},
		{name: "reset", answer: reset},
	}
	for name, body := range map[string]string{
		"empty body":               "",
		"not JSON":                 "<html>thanks</html>",
		"an array":                 "[" + acceptedBody + "]",
		"an empty object":          "{}",
		"another status":           `{"status":"PENDING","railReference":"RAIL-1"}`,
		"status in another case":   `{"status":"accepted","railReference":"RAIL-1"}`,
		"no status":                `{"railReference":"RAIL-1"}`,
		"no reference":             `{"status":"ACCEPTED"}`,
		"an empty reference":       `{"status":"ACCEPTED","railReference":""}`,
		"a reference of spaces":    `{"status":"ACCEPTED","railReference":"  "}`,
		"a numeric reference":      `{"status":"ACCEPTED","railReference":1}`,
		"a reference of two lines": `{"status":"ACCEPTED","railReference":"RAIL-1\nRAIL-2"}`,
		"a reference too long":     `{"status":"ACCEPTED","railReference":"` + strings.Repeat("R", 129) + `"}`,
		"a NUL in the reference":   `{"status":"ACCEPTED","railReference":"R\u0000"}`,
		"the reference twice":      `{"status":"ACCEPTED","railReference":"RAIL-1","railReference":"RAIL-2"}`,
		"trailing data":            acceptedBody + "x",
	} {
		rows = append(rows, classification{name: "200 with " + name, answer: send(response(200, body))})
	}
	for _, status := range []int{300, 400, 401, 403, 404, 408, 409, 410, 422, 425, 429, 500, 501, 502, 503, 504, 599} {
		rows = append(rows, classification{name: fmt.Sprintf("status %d", status), answer: send(response(status, acceptedBody, "Retry-After: 0"))})
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		rows = append(rows, classification{name: fmt.Sprintf("redirect %d", status), answer: func(conn net.Conn, nth int) bool {
			return send(response(status, acceptedBody, "Location: http://"+conn.LocalAddr().String()+"/submit"))(conn, nth)
		}})
	}
	rows = append(rows,
		classification{name: "no answer in time", answer: silent(), silent: true},
		classification{name: "half an answer in time", answer: silent(acknowledged[:len(acknowledged)-5]), silent: true})
	for i := range rows {
		rows[i].want = apierr.RailAmbiguous
	}
	return rows
}

var outcomeOf = map[apierr.Code]string{"": "ACKED", apierr.Rejected: "REJECTED", apierr.RailAmbiguous: "TIMEOUT", apierr.RailUnavailable: "UNSENT"}

func TestEveryAnswerOfTheRailHasOneMeaningAndOneRequest(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	for _, c := range append(acknowledgements(), ambiguities()...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rail := startRail(t, c.answer)
			p := start(t, db, rail.url(), func(cfg *Config) {
				if c.silent {
					cfg.RailTimeout = 1500 * time.Millisecond
				}
			})
			s := newSubmission(1)
			s.Account = s.Payout // an account of its own
			a := p.submit(s)
			if c.want == "" {
				requireAcked(t, a)
			} else {
				requireCode(t, c.want, a)
				require.False(t, a.err.RetrySafe)
				require.Equal(t, outcomeOf[c.want], a.err.Details["outcome"])
				require.NotEmpty(t, a.err.Details["submissionId"])
			}
			require.Equal(t, outcomeOf[c.want], db.outcomes(t, s.Payout))
			require.Equal(t, 1, rail.count())
			require.Equal(t, 1, rail.connections())
			require.EqualValues(t, 1, p.submissions(strings.ToLower(outcomeOf[c.want])))

			// Whatever it was, it is never presented again, under any token.
			s.Token = 2
			requireCode(t, apierr.DuplicateSubmission, p.submit(s))
			require.Equal(t, 1, rail.connections())
		})
	}
}

func TestNothingWrittenIsUnsentAndMayBeTriedUnderTheNextToken(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	plain := startRail(t, send(acknowledged))
	for name, url := range map[string]string{
		"connection refused":   "http://" + closed.Addr().String(),
		"TLS handshake failed": "https://" + plain.listener.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			p := start(t, db, url, nil)
			s := newSubmission(1)
			a := p.submit(s)
			requireCode(t, apierr.RailUnavailable, a)
			require.True(t, a.err.RetrySafe)
			require.Equal(t, "UNSENT", db.outcomes(t, s.Payout))
			require.EqualValues(t, 1, p.submissions("unsent"))

			rail := startRail(t, send(acknowledged))
			p = start(t, db, rail.url(), nil)
			requireCode(t, apierr.DuplicateSubmission, p.submit(s)) // the same token was used
			s.Token = 2
			requireAcked(t, p.submit(s))
			require.Equal(t, "UNSENT ACKED", db.outcomes(t, s.Payout))
			require.Equal(t, 1, rail.count())
		})
	}
	require.Zero(t, plain.count())
}

// A commit that takes longer than an intent may be old leaves the intent too old to be sent: its age is
// reckoned from before the commit.
func TestAnIntentThatIsTooOldIsNotSent(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	_, err := db.pool.Exec(t.Context(), `
		CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.1); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON rail_submission DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION slow_commit()`)
	require.NoError(t, err)
	rail := startRail(t, send(acknowledged))
	p := start(t, db, rail.url(), nil)
	s := newSubmission(1)
	requireCode(t, apierr.RailUnavailable, p.submit(s))
	require.Equal(t, "UNSENT", db.outcomes(t, s.Payout))
	require.Zero(t, rail.count())
}
