package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"railguard/deploy/local"
)

// processNames are the processes to which --env may give a variable.
var processNames = []string{local.LockServer, local.PaymentResource, local.RailProxy, local.RailStub, local.Worker, local.Temporal}

// stackFlags are the flags of the commands that start a whole system.
type stackFlags struct {
	options   local.Options
	freePorts bool
	env       []string
}

func (f *stackFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.options.DataDir, "data-dir", os.Getenv("RAILGUARD_DATA_DIR"),
		"keep databases, tokens and logs in this folder (default: $RAILGUARD_DATA_DIR, else a temporary one)")
	defaults := local.DefaultPorts()
	byDefault := defaults.Names()
	for i, port := range f.options.Ports.Names() {
		flags.IntVar(port.Port, port.Name+"-port", 0, fmt.Sprintf("port of %s on 127.0.0.1 (default %d)", port.Name, *byDefault[i].Port))
	}
	flags.BoolVar(&f.freePorts, "free-ports", false, "take free ports instead of the defaults")
	flags.StringArrayVar(&f.env, "env", nil, "a variable for one process, such as rail-proxy:RAIL_TIMEOUT=2s; repeatable")
}

// local is the options that the flags add up to.
func (f *stackFlags) local(cmd *cobra.Command) (local.Options, error) {
	o := f.options
	o.Ports.Fixed = !f.freePorts
	o.Out = cmd.ErrOrStderr()
	for _, port := range o.Ports.Names() {
		if *port.Port < 0 || *port.Port > 65535 {
			return o, badInput("--%s-port: want 1 to 65535", port.Name)
		}
	}
	o.Env = map[string][]string{}
	for _, each := range f.env {
		process, pair, ok := strings.Cut(each, ":")
		if !ok || !strings.Contains(pair, "=") {
			return o, badInput("--env: %q is not process:NAME=VALUE", each)
		}
		if !slices.Contains(processNames, process) {
			return o, badInput("--env: there is no process %q; there are %s", process, strings.Join(processNames, ", "))
		}
		o.Env[process] = append(o.Env[process], pair)
	}
	return o, nil
}
