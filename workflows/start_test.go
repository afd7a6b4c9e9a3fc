package workflows

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"railguard/activities"
	"railguard/services/fencing"
)

func TestStartOptions(t *testing.T) {
	o := StartOptions("payouts", PayoutInput{PayoutID: payoutID, AccountID: "acc-1"})
	require.Equal(t, "payout-"+payoutID, o.ID)
	require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, o.WorkflowIDConflictPolicy)
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, o.WorkflowIDReusePolicy)
	require.Nil(t, o.RetryPolicy, "a run is never repeated by Temporal")
	id, _ := o.TypedSearchAttributes.GetKeyword(PayoutIDAttribute)
	require.Equal(t, payoutID, id)
	account, _ := o.TypedSearchAttributes.GetKeyword(PayoutAccountIDAttribute)
	require.Equal(t, "acc-1", account)
}

// The names here and the methods there must be the same words, and the token is the first argument of
// every step after the acquire: it can be in no context value if it is there.
func TestTheActivityTypesAreTheMethodsAndTakeTheTokenFirst(t *testing.T) {
	steps := reflect.TypeFor[*activities.Activities]()
	var methods []string
	for i := range steps.NumMethod() {
		method := steps.Method(i)
		methods = append(methods, method.Name)
		first := method.Type.In(2) // after the receiver and the context
		if method.Name == loadPayout || method.Name == acquireLock {
			require.Equal(t, 3, method.Type.NumIn(), method.Name)
			continue
		}
		require.Equal(t, 4, method.Type.NumIn(), method.Name)
		require.Equal(t, reflect.TypeFor[fencing.Token](), first, method.Name)
		require.Equal(t, reflect.Struct, method.Type.In(3).Kind(), method.Name)
	}
	require.ElementsMatch(t, methods, ActivityTypes())
}

func TestTheSearchAttributesHaveTheirTypes(t *testing.T) {
	require.Equal(t, map[string]enumspb.IndexedValueType{
		"PayoutId":        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"PayoutAccountId": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"PayoutState":     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FencingToken":    enumspb.INDEXED_VALUE_TYPE_INT,
	}, SearchAttributes())
}
