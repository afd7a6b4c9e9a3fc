package workers

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"railguard/workflows"
)

// errRefused is wrapped by an error of Temporal that waiting does not cure.
var errRefused = errors.New("the search attributes cannot be used")

// appearWithin is how long a search attribute may take to show after it was added.
const appearWithin = 10 * time.Second

// registerSearchAttributes makes sure that the payouts' search attributes exist with their types. An
// upsert of one that does not exist would block every run, and adding one that exists with another type
// succeeds and changes nothing, so what counts is what the list says afterwards.
func registerSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	missing, err := compareSearchAttributes(ctx, c, namespace)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) { // another worker may add them at the same time
		return refusal(fmt.Errorf("add search attributes %s: %w", names(missing), err))
	}
	ctx, cancel := context.WithTimeout(ctx, appearWithin)
	defer cancel()
	for {
		missing, err = compareSearchAttributes(ctx, c, namespace)
		if err != nil || len(missing) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("search attributes %s were added and do not show", names(missing))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// compareSearchAttributes returns those that are missing; one with another type is an error.
func compareSearchAttributes(ctx context.Context, c client.Client, namespace string) (map[string]enumspb.IndexedValueType, error) {
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, refusal(fmt.Errorf("list search attributes: %w", err))
	}
	missing := make(map[string]enumspb.IndexedValueType)
	for name, want := range workflows.SearchAttributes() {
		got, ok := list.GetCustomAttributes()[name]
		switch {
		case !ok:
			missing[name] = want
		case got != want:
			return nil, fmt.Errorf("%w: %s has type %s in namespace %q, want %s", errRefused, name, got, namespace, want)
		}
	}
	return missing, nil
}

// refusal tells an answer that waiting does not cure from a server that is not there yet.
func refusal(err error) error {
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	var invalid *serviceerror.InvalidArgument
	var precondition *serviceerror.FailedPrecondition
	if errors.As(err, &denied) || errors.As(err, &unimplemented) || errors.As(err, &invalid) || errors.As(err, &precondition) {
		return fmt.Errorf("%w: %w; a namespace administrator can add PayoutId, PayoutAccountId, PayoutState (Keyword) and FencingToken (Int)", errRefused, err)
	}
	return err
}

func names(attributes map[string]enumspb.IndexedValueType) string {
	list := make([]string, 0, len(attributes))
	for name := range attributes {
		list = append(list, name)
	}
	sort.Strings(list)
	return strings.Join(list, ", ")
}
