package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"railguard/services/httpserver"
)

// build is what the binary knows of itself.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the repository
	Modified bool   `json:"modified,omitempty"` // built from a work tree with changes of its own
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Show the version of this binary", Args: cobra.NoArgs}
	output := outputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		b := build{Version: httpserver.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				switch s.Key {
				case "vcs.revision":
					b.Revision = s.Value
				case "vcs.modified":
					b.Modified = s.Value == "true"
				}
			}
		}
		return output.print(cmd.OutOrStdout(), b, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "railguard %s (%s, %s)\n", b.Version, b.Go, b.Platform)
			return err
		})
	}
	return c
}
