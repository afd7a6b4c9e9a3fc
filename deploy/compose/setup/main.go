// Setup prepares what the compose stack needs from the host, and tells the host where the stack is.
//
//	go run ./deploy/compose/setup secrets    make the secrets that are missing
//	go run ./deploy/compose/setup profile    write the profile of the running stack, and say where everything is
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// folder is that of compose.yaml, from the root of the repository.
const folder = "deploy/compose"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, problems io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) != 1 {
		_, _ = fmt.Fprintln(problems, "setup: want one argument: secrets or profile")
		return 2
	}
	dir, err := filepath.Abs(folder)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "compose.yaml"))
	}
	if err == nil {
		switch args[0] {
		case "secrets":
			err = makeSecrets(dir)
		case "profile":
			err = writeProfile(ctx, dir, out)
		default:
			err = fmt.Errorf("%q is neither secrets nor profile", args[0])
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(problems, "setup: %v\n", err)
		return 1
	}
	return 0
}
