package fencing

// RaiseRequest raises the fence of one account at one guard, never lowers it. Both guards take it in the
// same form and neither hears of the other.
type RaiseRequest struct {
	Floor  Token  `json:"floor"` // above 0, at most MaxFloor
	Reason string `json:"reason"`
}

// Fence is the fence of one account at one guard.
type Fence struct {
	AccountID string `json:"accountId"`
	Fence     Token  `json:"fence"`
}

// Highest is the highest token that a guard has stored for any account; 0 for none.
type Highest struct {
	Highest Token `json:"highest"`
}
