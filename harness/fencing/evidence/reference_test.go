package evidence_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"railguard/harness/fencing/evidence"
)

// The captures that are kept say what the judge says of their facts today: nobody has to believe a verdict that can be judged again.
func TestTheReferenceCapturesAreJudgedAsTheySay(t *testing.T) {
	for _, mode := range []evidence.Mode{evidence.Off, evidence.On} {
		data, err := os.ReadFile(filepath.Join("..", "..", "fencing-demo", "reference", string(mode), "verdict.json"))
		require.NoError(t, err)
		var run evidence.Run
		require.NoError(t, json.Unmarshal(data, &run))
		require.Equal(t, mode, run.Mode)
		require.NotEmpty(t, run.Repetitions)
		for _, r := range run.Repetitions {
			for _, a := range r.Attempts {
				cells, verdict, why := evidence.Judge(mode, run.Pause, a.Facts)
				require.Equal(t, a.Cells, cells)
				require.Equal(t, a.Verdict, verdict)
				require.Equal(t, a.Diagnoses, why)
			}
		}
		require.Equal(t, run.Summary, evidence.Summarize(run))
		require.True(t, run.Summary.Passed)
	}
}
