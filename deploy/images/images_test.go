//go:build images

// Package images_test tries the images that the compose stack is made of, in containers: `make test-images`. Which ones stand for PostgreSQL,
// Temporal and so on is taken from the environment, from compose's .env file or from images.txt, in this order, as compose does.
package images_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the repository, seen from this folder.
const root = "../.."

// owned is the label of all that these tests make in the Docker engine.
var owned = fmt.Sprintf("railguard-test=%d", os.Getpid())

func TestMain(m *testing.M) {
	code := m.Run()
	removeBuilt()
	if left := leftovers(); left != "" {
		fmt.Fprintln(os.Stderr, "left in the Docker engine:", left)
		code = 1
	}
	os.Exit(code)
}

func leftovers() string {
	var left []string
	for _, list := range [][]string{{"ps", "--all"}, {"network", "ls"}, {"image", "ls"}, {"volume", "ls"}} {
		out, err := exec.Command("docker", append(list, "--quiet", "--filter", "label="+owned)...).CombinedOutput()
		if found := strings.Fields(string(out)); err != nil || len(found) > 0 {
			left = append(left, list[0]+" "+strings.Join(found, " "))
		}
	}
	return strings.Join(left, ", ")
}

// try runs docker and returns what it printed.
func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, args...)
	require.NoError(t, err, "docker %s: %s", strings.Join(args, " "), out)
	return out
}

// image returns the image that a variable of compose names.
func image(t *testing.T, variable string) string {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		name = line(t, filepath.Join(root, "deploy/compose/.env"), regexp.MustCompile(`^`+variable+`=(\S+)`))
	}
	if name == "" {
		name = line(t, "images.txt", regexp.MustCompile(`^`+variable+`\s+(\S+)`))
	}
	if out, err := try(t, "image", "inspect", name); err != nil {
		t.Fatalf("%s=%s: %s; first: make images, or make images FROM_SOURCE=1", variable, name, out)
	}
	return name
}

// line returns the group of the last line that matches, or nothing where there is no such line or file.
func line(t *testing.T, file string, wanted *regexp.Regexp) (found string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		if m := wanted.FindStringSubmatch(s.Text()); m != nil {
			found = m[1]
		}
	}
	return found
}

// container creates one that is removed after the test, and its volumes with it. files are copied into it before it starts: they belong to
// root, and one whose name is password can be read by root alone.
func container(t *testing.T, files map[string]string, args ...string) string {
	t.Helper()
	id := docker(t, append([]string{"create", "--label", owned}, args...)...)
	t.Cleanup(func() {
		volumes, err := exec.Command("docker", "inspect", "--format", "{{range .Mounts}}{{.Name}} {{end}}", id).Output()
		assert.NoError(t, err)
		out, err := exec.Command("docker", "rm", "--force", "--volumes", id).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		for _, volume := range strings.Fields(string(volumes)) { // they have no name that we gave and no label
			assert.Error(t, exec.Command("docker", "volume", "inspect", volume).Run(), "volume %s is left", volume)
		}
		if t.Failed() {
			t.Logf("container of %v", args)
		}
	})
	for path, content := range files {
		local := filepath.Join(t.TempDir(), filepath.Base(path))
		mode := os.FileMode(0o644)
		if filepath.Base(path) == "password" {
			mode = 0o600
		}
		require.NoError(t, os.WriteFile(local, []byte(content), mode))
		docker(t, "cp", local, id+":"+path)
	}
	docker(t, "start", id)
	return id
}

// eventually runs docker until it succeeds, or until the container has ended.
func eventually(t *testing.T, id string, args ...string) string {
	t.Helper()
	var out string
	deadline := time.Now().Add(90 * time.Second)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		var err error
		if out, err = try(t, args...); err == nil {
			return out
		}
		running := docker(t, "inspect", "--format", "{{.State.Running}}", id) == "true"
		if !running || time.Now().After(deadline) {
			logs, _ := try(t, "logs", "--tail", "30", id)
			t.Fatalf("docker %s: %s\nrunning: %t; its log:\n%s", strings.Join(args, " "), out, running, logs)
		}
	}
}

// first returns the user ID and the command line of the container's process 1.
func first(t *testing.T, id string) (uid, command string) {
	t.Helper()
	pid := docker(t, "inspect", "--format", "{{.State.Pid}}", id)
	for _, process := range strings.Split(docker(t, "top", id, "-o", "pid,uid,args"), "\n") {
		if fields := strings.Fields(process); len(fields) > 2 && fields[0] == pid {
			return fields[1], strings.Join(fields[2:], " ")
		}
	}
	t.Fatalf("process %s of the container is not among its processes", pid)
	return "", ""
}

func network(t *testing.T) string {
	t.Helper()
	id := docker(t, "network", "create", "--label", owned, fmt.Sprintf("railguard-test-%d-%s", os.Getpid(), strings.ToLower(t.Name())))
	t.Cleanup(func() {
		out, err := exec.Command("docker", "network", "rm", id).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
	return id
}

// TestHistoryTellsNothingOfThisMachine looks through how each image came about.
func TestHistoryTellsNothingOfThisMachine(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	names := []string{railguard(t)}
	for _, variable := range []string{"POSTGRES_IMAGE", "ETCD_IMAGE", "TEMPORAL_IMAGE", "TEMPORAL_ADMIN_TOOLS_IMAGE", "TEMPORAL_UI_IMAGE", "PROMETHEUS_IMAGE"} {
		names = append(names, image(t, variable))
	}
	secret := regexp.MustCompile(`(?i)(password|passwd|pwd|token|secret|api_?key)[a-z_]*=\S`)
	for _, name := range names {
		told := docker(t, "history", "--no-trunc", "--format", "{{.CreatedBy}} {{.Comment}}", name) +
			docker(t, "image", "inspect", "--format", "{{json .Config}} {{json .ContainerConfig}}", name)
		assert.NotRegexp(t, secret, told, name)
		for what, text := range map[string]string{"folder of the repository": here + "/", "home folder": home + "/", "temporary folder": "/tmp/tmp."} {
			assert.NotContains(t, told, text, "%s: the %s", name, what)
		}
		assert.NotRegexp(t, `\b`+regexp.QuoteMeta(host)+`\.|@`+regexp.QuoteMeta(host)+`\b`, told, name)
	}
}

func TestEtcd(t *testing.T) {
	id := container(t, nil, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", image(t, "ETCD_IMAGE"), "/usr/local/bin/etcd",
		"--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", "http://127.0.0.1:2379")
	eventually(t, id, "exec", id, "etcdctl", "endpoint", "health")
	uid, command := first(t, id)
	assert.Contains(t, command, "etcd")
	if strings.HasPrefix(image(t, "ETCD_IMAGE"), "railguard-src/") { // the official one runs as root
		assert.NotEqual(t, "0", uid)
	}
	_, err := try(t, "exec", id, "/bin/sh", "-c", "true")
	assert.Error(t, err, "etcd's image has no shell")
	assert.Equal(t, "0", stop(t, id))
}

func TestPrometheus(t *testing.T) {
	id := container(t, nil, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", image(t, "PROMETHEUS_IMAGE"))
	eventually(t, id, "exec", id, "wget", "-q", "-O", "-", "http://127.0.0.1:9090/-/healthy")
	uid, command := first(t, id)
	assert.Equal(t, "65534", uid)
	assert.Contains(t, command, "prometheus --config.file=/etc/prometheus/prometheus.yml")
	docker(t, "exec", id, "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
	assert.Equal(t, "0", stop(t, id))
}

// stop ends a container as compose does and returns its exit code.
func stop(t *testing.T, id string) string {
	t.Helper()
	docker(t, "stop", "--time", "20", id)
	return docker(t, "inspect", "--format", "{{.State.ExitCode}}", id)
}
