package paymentresource

import (
	"testing"

	"railguard/docs/contracts/contracttest"
)

func TestEveryRouteIsInTheContract(t *testing.T) {
	t.Parallel()
	contracttest.CheckRoutes(t, Name, start(t).server.http.Engine().Routes())
}
