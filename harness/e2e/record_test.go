package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"railguard/harness/cluster"
)

// recordTo is where the histories of the runs are kept, for the replay tests of the workflow code. A
// history that is there already is never replaced: it stands for runs that are open somewhere.
var recordTo = flag.String("record", "", "a folder in which to keep the history of every verified run that is not there yet")

// identities name the machine on which a history was recorded; nothing depends on them.
var identities = regexp.MustCompile(`"([a-zA-Z]*[iI]dentity)":\s*"[^"]*"`)

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

func record(t *testing.T, c *cluster.Cluster, run client.WorkflowRun) {
	t.Helper()
	if *recordTo == "" {
		return
	}
	name := strings.Trim(notInNames.ReplaceAllString(strings.TrimPrefix(t.Name(), "Test"), "-"), "-")
	path := filepath.Join(*recordTo, name+".json")
	if _, err := os.Stat(path); err == nil {
		return
	}
	data, err := protojson.MarshalOptions{Indent: " "}.Marshal(c.History(t, run))
	require.NoError(t, err)
	data = identities.ReplaceAll(data, []byte(`"$1": "recorded"`))
	require.NoError(t, os.WriteFile(path, data, 0o644))
}
