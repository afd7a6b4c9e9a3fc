package workflows

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// The names under which a shell, the UI and other programs reach ExecutePayout.
const (
	ExecutePayoutType = "ExecutePayout"
	DefaultTaskQueue  = "payouts"
	StatusQuery       = "status"
)

// The search attributes of a payout's run. FencingToken is the token of its grant.
var (
	PayoutIDAttribute        = temporal.NewSearchAttributeKeyKeyword("PayoutId")
	PayoutAccountIDAttribute = temporal.NewSearchAttributeKeyKeyword("PayoutAccountId")
	PayoutStateAttribute     = temporal.NewSearchAttributeKeyKeyword("PayoutState")
	FencingTokenAttribute    = temporal.NewSearchAttributeKeyInt64("FencingToken")
)

// SearchAttributes are the types with which the search attributes must be registered.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		PayoutIDAttribute.GetName():        PayoutIDAttribute.GetValueType(),
		PayoutAccountIDAttribute.GetName(): PayoutAccountIDAttribute.GetValueType(),
		PayoutStateAttribute.GetName():     PayoutStateAttribute.GetValueType(),
		FencingTokenAttribute.GetName():    FencingTokenAttribute.GetValueType(),
	}
}

// Types are the workflow types of a worker.
func Types() []string { return []string{ExecutePayoutType} }

// ActivityTypes are the activity types of a worker, in the order of a payout's steps.
func ActivityTypes() []string {
	return []string{
		loadPayout, acquireLock, claimPayout, lookupSubmission, submitToRail, postLedger, recordRailOutcome, abandonClaim, releaseLock,
	}
}

// WorkflowID is the id of a payout's run: one run at a time for a payout.
func WorkflowID(payoutID string) string { return "payout-" + payoutID }

// StartOptions start ExecutePayout for a payout. A payout that is running answers with its run; one that
// is closed runs again, which is how a contended or abandoned payout gets its next pass.
func StartOptions(taskQueue string, in PayoutInput) client.StartWorkflowOptions {
	attributes := []temporal.SearchAttributeUpdate{PayoutIDAttribute.ValueSet(in.PayoutID)}
	if in.AccountID != "" {
		attributes = append(attributes, PayoutAccountIDAttribute.ValueSet(in.AccountID))
	}
	return client.StartWorkflowOptions{
		ID:                       WorkflowID(in.PayoutID),
		TaskQueue:                taskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		TypedSearchAttributes:    temporal.NewSearchAttributes(attributes...),
		EnableEagerStart:         true,
		StaticSummary:            "Payout " + in.PayoutID,
	}
}
