package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const top = "../.."

func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob(filepath.Join(top, "*.md"))
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(filepath.Join(top, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			documents = append(documents, path)
		}
		return err
	}))
	require.Greater(t, len(documents), 10)
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(found[1], "://") {
				_, err := os.Stat(filepath.Join(filepath.Dir(document), found[1]))
				require.NoError(t, err, "%s links to %s", document, found[1])
			}
		}
	}
}

// Commands have variables of their own, which docs/cli.md tells.
func TestOperationsTellsEveryVariableOfAProcess(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(top, "docs", "operations.md"))
	require.NoError(t, err)
	tag := regexp.MustCompile(`envconfig:"([A-Z_]+)"`)
	for _, name := range []string{"workers/config.go", "services/lockserver/config.go", "services/paymentresource/config.go",
		"services/railproxy/config.go", "services/railstub/config.go"} {
		source, err := os.ReadFile(filepath.Join(top, name))
		require.NoError(t, err)
		found := tag.FindAllStringSubmatch(string(source), -1)
		require.NotEmpty(t, found, name)
		for _, variable := range found {
			require.Contains(t, string(text), "`"+variable[1]+"`", name)
		}
	}
}
