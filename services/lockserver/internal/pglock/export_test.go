package pglock

// The statements that a test explains.
const (
	SweepSQL       = sqlSweep
	HeldSQL        = sqlHeld
	FreeSessionSQL = sqlFreeSession
)
