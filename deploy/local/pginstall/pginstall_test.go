package pginstall

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutClusterOverridesWhateverTheFileSays(t *testing.T) {
	for name, conf := range map[string]string{
		"as packaged": "# Create a \"main\" cluster\n#create_main_cluster = true\n\nstart_conf = 'auto'\n",
		"turned on":   "create_main_cluster = true\nstart_conf = 'auto'",
		"empty":       "",
	} {
		t.Run(name, func(t *testing.T) {
			got := string(withoutCluster([]byte(conf)))
			require.Equal(t, 1, len(clusterLine.FindAllString(got, -1)), got)
			require.Contains(t, got, "\ncreate_main_cluster = false\n")
			if conf != "" {
				require.Contains(t, got, "start_conf = 'auto'")
			}
		})
	}
}
