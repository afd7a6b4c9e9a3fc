// Command negative builds the product with one safety mechanism broken at a time, and fails unless a named test goes
// red for each. A check that has never been seen to fail proves nothing.
//
// The sources are not touched: each control patches a copy in a temporary folder, which the go command takes in place
// of the file (its -overlay flag).
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// control is one mechanism broken on purpose and the test that must notice.
type control struct {
	name  string
	what  string // what is broken
	edits []edit
	pkg   string
	test  string // the test, as go test -run takes it
	says  string // what it must say as it fails, where it could fail for another reason; "" for anything
}

// edit replaces text that stands exactly once in a file.
type edit struct{ file, old, new string }

func main() {
	only := flag.String("only", "", "run the one control of this name")
	list := flag.Bool("list", false, "list the controls and stop")
	flag.Parse()
	if err := run(*only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "negative controls:", err)
		os.Exit(1)
	}
}

func run(only string, list bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	var failed []string
	ran := 0
	for _, c := range controls {
		if only != "" && c.name != only {
			continue
		}
		ran++
		if list {
			fmt.Printf("%-34s %s\n%34s must fail: %s %s\n", c.name, c.what, "", c.pkg, c.test)
			continue
		}
		if err := c.run(root); err != nil {
			fmt.Printf("NOT CAUGHT  %-34s %v\n", c.name, err)
			failed = append(failed, c.name)
			continue
		}
		fmt.Printf("caught      %-34s by %s\n", c.name, c.test)
	}
	if ran == 0 {
		return fmt.Errorf("there is no control named %q; -list shows them", only)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d broken builds were not caught: %s", len(failed), ran, strings.Join(failed, ", "))
	}
	if !list {
		fmt.Printf("%d of %d broken builds were caught\n", ran, ran)
	}
	return nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	path := strings.TrimSpace(string(out))
	if path == "" || path == os.DevNull {
		return "", errors.New("run it inside the module")
	}
	return filepath.Dir(path), nil
}

// run returns nil when the test goes red, and an error when it stays green or nothing can be concluded.
func (c control) run(root string) error {
	dir, err := os.MkdirTemp("", "railguard-negative-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := c.patch(root, dir)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "test", "-json", "-count=1", "-vet=off", "-timeout=5m", "-tags=fencing", "-run="+c.test, c.pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay) // a test that builds the product builds the broken one
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	return c.verdict(&out, errOut.String())
}

// verdict reads the test run: red means that a test ran and failed, not that the build did.
func (c control) verdict(out *bytes.Buffer, errOut string) error {
	ran, failed, said := 0, 0, c.says == ""
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	var tail []string
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue
		}
		switch {
		case event.Action == "run" && event.Test != "":
			ran++
		case event.Action == "fail" && event.Test != "":
			failed++
		case event.Action == "output" || event.Action == "build-output":
			tail = append(tail, event.Output)
			said = said || strings.Contains(event.Output, c.says)
		}
	}
	switch {
	case ran == 0:
		return fmt.Errorf("no test ran: %s%s", errOut, strings.Join(tail[max(0, len(tail)-15):], ""))
	case failed == 0:
		return errors.New("every test stayed green")
	case !said:
		return fmt.Errorf("it went red and did not say %q: %s", c.says, strings.Join(tail[max(0, len(tail)-15):], ""))
	}
	return nil
}

// patch writes the patched copies and the overlay file that names them.
func (c control) patch(root, dir string) (string, error) {
	patched := make(map[string]string)
	for _, e := range c.edits {
		if _, ok := patched[e.file]; !ok {
			data, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return "", err
			}
			patched[e.file] = string(data)
		}
		if n := strings.Count(patched[e.file], e.old); n != 1 {
			return "", fmt.Errorf("the text to break stands %d times in %s, want once: the control is out of date: %q", n, e.file, e.old)
		}
		patched[e.file] = strings.Replace(patched[e.file], e.old, e.new, 1)
	}
	replace := make(map[string]string, len(patched))
	for file, text := range patched {
		at := filepath.Join(dir, strings.ReplaceAll(file, "/", "__"))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = at
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, data, 0o600)
}
