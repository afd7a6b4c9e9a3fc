package railstub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"railguard/services/apierr"
	"railguard/services/httpserver"
	"railguard/services/stubapi"
)

const maxClientRef = 128 // bytes

// submit treats every request as a fresh transfer. The request is in the book, with the money moved or
// not, as soon as its body was read: before any latency, and whatever becomes of the caller.
func (s *server) submit(c *gin.Context) {
	var r stubapi.SubmitRequest
	err := httpserver.Body(c, &r)
	if err == nil {
		err = checkSubmission(r)
	}
	if err != nil {
		s.book.Receive(stubapi.SubmitRequest{ClientRef: bounded(r.ClientRef)}, stubapi.InvalidRequest)
		httpserver.Fail(c, err)
		return
	}
	decision := s.behaviour.Decide(r.ClientRef)
	reference := s.book.Receive(r, decision.Kind)
	answers := time.NewTimer(decision.Latency)
	defer answers.Stop()
	select {
	case <-answers.C:
		answer(c, decision.Kind, reference)
	case <-s.stopping:
		drop(c)
	case <-c.Request.Context().Done(): // nobody is left to be answered
	}
}

func checkSubmission(r stubapi.SubmitRequest) error {
	wrong := make(map[string]string)
	if len(r.ClientRef) < 1 || len(r.ClientRef) > maxClientRef {
		wrong["clientRef"] = fmt.Sprintf("want 1 to %d bytes", maxClientRef)
	}
	if r.AmountMinor <= 0 {
		wrong["amountMinor"] = "want an integer above zero"
	}
	if _, err := r.Currency.Exponent(); err != nil {
		wrong["currency"] = "want a known ISO 4217 code"
	}
	if len(wrong) > 0 {
		return apierr.Fields(wrong)
	}
	return nil
}

func bounded(clientRef string) string {
	if len(clientRef) > maxClientRef {
		return ""
	}
	return clientRef
}

// declined is the body of a refusal by the rail.
type declined struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}

func answer(c *gin.Context, kind stubapi.Kind, reference string) {
	acknowledgement, _ := json.Marshal(stubapi.Ack{Status: "ACCEPTED", RailReference: reference}) // two strings always encode
	switch kind {
	case stubapi.Decline:
		c.JSON(http.StatusPaymentRequired, declined{Status: "DECLINED", Reason: "the beneficiary's bank declined"})
	case stubapi.ServerError:
		c.JSON(http.StatusServiceUnavailable, declined{Status: "ERROR", Reason: "internal error"})
	case stubapi.UnexpectedStatus:
		c.JSON(http.StatusConflict, declined{Status: "ERROR", Reason: "conflict"})
	case stubapi.DropBefore, stubapi.DropAfter:
		drop(c)
	case stubapi.MalformedAck:
		c.Data(http.StatusOK, "text/html", []byte("<html><body>Thank you for your payment.</body></html>"))
	case stubapi.TruncatedAck:
		truncate(c, acknowledgement)
	case stubapi.DoubleAck:
		c.Data(http.StatusOK, "application/json", append(append(acknowledgement, '\n'), acknowledgement...))
	default: // none, hang
		c.Data(http.StatusOK, "application/json", acknowledgement)
	}
}

// drop closes the connection without an answer.
func drop(c *gin.Context) {
	conn, _, err := c.Writer.Hijack()
	if err != nil {
		httpserver.Fail(c, err)
		return
	}
	_ = conn.Close() // it is meant to look broken
}

// truncate promises an acknowledgement, sends half of it and closes the connection.
func truncate(c *gin.Context, acknowledgement []byte) {
	conn, out, err := c.Writer.Hijack()
	if err != nil {
		httpserver.Fail(c, err)
		return
	}
	// Errors mean that the caller sees even less of the answer.
	_, _ = fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(acknowledgement), acknowledgement[:len(acknowledgement)/2])
	_ = out.Flush()
	_ = conn.Close()
}
