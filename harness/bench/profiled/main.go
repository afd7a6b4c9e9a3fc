// Profiled is the railguard binary with a CPU profiler in it: SIGUSR1 starts a profile, SIGUSR2 ends it, and each becomes
// a file "<subcommand>-<n>.cpu.pprof" in the folder that BENCH_PROFILE_DIR names; at the end the allocations follow as
// "<subcommand>.allocs.pprof". It is built by the benchmark alone: the product has no such switch.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"

	"railguard/deploy/cli"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	subcommand := ""
	if len(args) > 0 {
		subcommand = args[0]
	}
	code, err := profile(os.Getenv("BENCH_PROFILE_DIR"), subcommand, func() int {
		return cli.Run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	})
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "profile:", err) // there is nowhere else to say it
	}
	return code
}

// profile runs do under the profiler; without a folder or a name for the files it only runs it.
func profile(dir, name string, do func() int) (code int, err error) {
	if dir == "" || name == "" {
		return do(), nil
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	done := make(chan int)
	go func() { done <- do() }()
	p := profiler{base: filepath.Join(dir, name)}
	for {
		var sig os.Signal
		select {
		case code = <-done:
			if err == nil {
				err = p.end()
			}
			if err == nil {
				err = p.allocations()
			}
			return code, err
		case sig = <-signals:
		}
		if err != nil {
			continue // the first failure is the one that is told
		}
		if sig == syscall.SIGUSR1 {
			err = p.begin()
		} else {
			err = p.end()
		}
	}
}

// profiler writes one process's profiles.
type profiler struct {
	base string
	n    int
	file *os.File // of the profile under way
}

func (p *profiler) begin() error {
	if err := p.end(); err != nil {
		return err
	}
	p.n++
	file, err := os.Create(fmt.Sprintf("%s-%d.cpu.pprof", p.base, p.n))
	if err != nil {
		return err
	}
	p.file = file
	return pprof.StartCPUProfile(file)
}

func (p *profiler) end() error {
	if p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := p.file.Close()
	p.file = nil
	return err
}

func (p *profiler) allocations() error {
	file, err := os.Create(p.base + ".allocs.pprof")
	if err != nil {
		return err
	}
	if err := pprof.Lookup("allocs").WriteTo(file, 0); err != nil {
		_ = file.Close() // the write's own error says more
		return err
	}
	return file.Close()
}
