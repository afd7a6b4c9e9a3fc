//go:build images

package images_test

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// planted is what must not get into the context, in places where it could lie.
var planted = []string{".git/config", ".env", "deploy/compose/.env", "deploy/compose/secrets/token", "services/.env", "deploy/local/secrets/token",
	"deploy/cli/tls.key", ".tools/bin/tool", "bin/railguard", "harness/bench/out/result.json", ".data/file"}

const marker = "must-not-be-sent"

// built is the image of railguard and the source that it was built from; all tests look at the same build.
var built struct {
	sync.Once
	source, tag string
	problem     error
}

// railguard builds the image from a copy of the work tree: others may write to the work tree meanwhile.
func railguard(t *testing.T) string {
	t.Helper()
	builder := image(t, "GO_IMAGE")
	built.Do(func() { built.problem = build(builder) })
	require.NoError(t, built.problem)
	return built.tag
}

func build(builder string) error {
	var err error
	if built.source, err = os.MkdirTemp("", "railguard-source"); err != nil {
		return err
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) { // deleted, and not yet committed
			continue
		}
		if err == nil {
			err = write(filepath.Join(built.source, name), data)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range planted {
		if err := write(filepath.Join(built.source, name), []byte(marker)); err != nil {
			return err
		}
	}
	built.tag = fmt.Sprintf("railguard-test:%d", os.Getpid())
	for _, tag := range []string{built.tag, built.tag + "-builder"} {
		args := []string{"build", "--file", filepath.Join(built.source, "deploy/images/Dockerfile"), "--build-arg", "GO_IMAGE=" + builder,
			"--label", owned, "--tag", tag}
		if tag != built.tag {
			args = append(args, "--target", "build")
		}
		command := exec.Command("docker", append(args, built.source)...)
		command.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("docker build: %w\n%s", err, out)
		}
	}
	return nil
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func TestContextHoldsOnlySource(t *testing.T) {
	railguard(t)
	found, err := try(t, "run", "--rm", "--label", owned, built.tag+"-builder", "sh", "-c", "grep -rl "+marker+" /src --include='*' || true; find /src -name '*_test.go'")
	require.NoError(t, err, found)
	for _, name := range strings.Fields(found) {
		assert.Equal(t, "no such file", name, "was sent to the builder")
	}
	docker(t, "run", "--rm", "--label", owned, built.tag+"-builder", "test", "-f", "/src/main.go")
}

// TestImageHoldsTheBinaryAndNoShell lists every file of the image.
func TestImageHoldsTheBinaryAndNoShell(t *testing.T) {
	var files []string
	each(t, railguard(t), func(h *tar.Header, _ io.Reader) {
		if h.Typeflag == tar.TypeReg && h.Size > 0 { // the engine adds empty files to mount its own on
			files = append(files, h.Name)
			assert.Zero(t, h.Mode&0o022, "%s can be written by others", h.Name)
		}
	})
	assert.ElementsMatch(t, []string{"railguard", "zoneinfo.zip", "etc/passwd", "etc/group", "etc/ssl/certs/ca-certificates.crt"}, files)
}

// each calls f for every file of the image.
func each(t *testing.T, tag string, f func(*tar.Header, io.Reader)) {
	t.Helper()
	id := docker(t, "create", "--label", owned, tag)
	defer docker(t, "rm", id)
	export := exec.Command("docker", "export", id)
	out, err := export.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, export.Start())
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		f(h, r)
	}
	require.NoError(t, export.Wait())
}

func TestRailguardRunsHardened(t *testing.T) {
	tag := railguard(t)
	assert.Equal(t, "65532:65532", docker(t, "image", "inspect", "--format", "{{.Config.User}}", tag))
	hardened := []string{"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"}
	for _, user := range []string{"65532:65532", "12345:12345"} { // a secret that is the host user's alone is read by giving the container that user
		args := append([]string{"--user", user, "--env", "LISTEN_ADDR=127.0.0.1:8084"}, hardened...)
		id := container(t, nil, append(args, tag, "rail-stub")...)
		eventually(t, id, "exec", id, "/railguard", "health", "--url", "http://127.0.0.1:8084")
		uid, command := first(t, id)
		assert.Equal(t, user, uid+":"+uid)
		assert.Equal(t, "/railguard rail-stub", command)
		_, err := try(t, "exec", id, "/railguard", "health", "--url", "http://127.0.0.1:9")
		assert.Error(t, err, "nobody answers there")
		_, err = try(t, "exec", id, "/bin/sh", "-c", "true")
		assert.Error(t, err, "the image has a shell")
		assert.Equal(t, "0", stop(t, id))
	}
}

// TestBinaryIsReproducible builds the binary again outside the container: another folder, another user, another cache. The flags are the Dockerfile's.
func TestBinaryIsReproducible(t *testing.T) {
	tag := railguard(t)
	var inImage string
	each(t, tag, func(h *tar.Header, r io.Reader) {
		if h.Name == "railguard" {
			inImage = sum(t, r)
		}
	})
	flags := line(t, filepath.Join(built.source, "deploy/images/Dockerfile"), regexp.MustCompile(`^RUN (.* go build .*) -o /out/railguard \.$`))
	require.NotEmpty(t, flags, "the Dockerfile has no such line any more")
	version := regexp.MustCompile(`go\d+\.\d+(\.\d+)?`).FindString(docker(t, "run", "--rm", "--label", owned, tag, "version"))
	flags = strings.Replace(flags, "GOTOOLCHAIN=local", "GOTOOLCHAIN="+version, 1)
	binary := filepath.Join(t.TempDir(), "railguard")
	again := exec.Command("sh", "-c", flags+` -o "$0" .`, binary)
	again.Dir = built.source
	again.Env = append(os.Environ(), "GOCACHE="+t.TempDir(), "GOWORK=off")
	out, err := again.CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := os.Open(binary)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	assert.Equal(t, inImage, sum(t, f), "sha256 of the binary in the image, and of the one built here")
	data, err := os.ReadFile(binary)
	require.NoError(t, err)
	for _, path := range []string{built.source, "/src/main.go", "/usr/local/go/src/"} {
		assert.NotContains(t, string(data), path, "the binary names the folder that it was built in")
	}
}

func sum(t *testing.T, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	_, err := io.Copy(h, r)
	require.NoError(t, err)
	return hex.EncodeToString(h.Sum(nil))
}

// removeBuilt is called when all tests are over: they share the images.
func removeBuilt() {
	if built.tag != "" {
		_ = exec.Command("docker", "rmi", "--force", built.tag, built.tag+"-builder").Run() // leftovers tells
		_ = os.RemoveAll(built.source)
	}
}
