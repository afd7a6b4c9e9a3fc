package lockserver

import (
	"testing"

	"railguard/docs/contracts/contracttest"
)

func TestContractListsEveryRoute(t *testing.T) {
	t.Parallel()
	contracttest.CheckRoutes(t, "lock-server", boot(t).http.Engine().Routes())
}
