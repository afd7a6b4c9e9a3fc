//go:build images

package images_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const password = "p'4\"s $word" // what quoting would spoil

// serving asks over TCP, as every client and health check does.
func serving(id, user string) []string {
	return []string{"exec", id, "pg_isready", "--quiet", "--host", "127.0.0.1", "--username", user}
}

func query(id, user, database, pass, sql string) []string {
	return []string{"exec", "--env", "PGPASSWORD=" + pass, id, "psql", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "--tuples-only", "--no-align",
		"--host", "127.0.0.1", "--username", user, "--dbname", database, "--command", sql}
}

// TestPostgresSetUp holds the set-up in the middle with a script of initdb.d and asks whether the server looks ready.
func TestPostgresSetUp(t *testing.T) {
	id := container(t, map[string]string{
		"/password": password + "\n",
		"/docker-entrypoint-initdb.d/1-table.sql": "CREATE TABLE made (by text); INSERT INTO made VALUES (current_user);",
		"/docker-entrypoint-initdb.d/2-hold.sh": `mkfifo /tmp/go; read -r _ </tmp/go
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" -c "INSERT INTO made VALUES ('script')"`,
	}, "--env", "POSTGRES_USER=owner", "--env", "POSTGRES_PASSWORD_FILE=/password", "--env", "POSTGRES_DB=payouts",
		image(t, "POSTGRES_IMAGE"), "-c", "max_connections=17")

	eventually(t, id, "exec", id, "test", "-p", "/tmp/go")
	_, err := try(t, serving(id, "owner")...)
	assert.Error(t, err, "ready over TCP in mid set-up")
	listening := docker(t, "exec", id, "sh", "-c", "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" { print $2 }'")
	assert.NotContains(t, listening, ":1538", "something listens on port 5432 in mid set-up")

	docker(t, "exec", id, "sh", "-c", "echo >/tmp/go")
	eventually(t, id, serving(id, "owner")...)
	assert.Equal(t, "owner\nscript", docker(t, query(id, "owner", "payouts", password, "SELECT by FROM made")...))
	assert.Equal(t, "17", docker(t, query(id, "owner", "payouts", password, "SHOW max_connections")...))
	out, err := try(t, query(id, "owner", "payouts", "wrong", "SELECT 1")...)
	assert.Error(t, err)
	assert.Contains(t, out, "password authentication failed")

	uid, command := first(t, id)
	assert.Equal(t, "999", uid)
	assert.True(t, strings.HasPrefix(command, "postgres"), "process 1 is %s", command)
	logs, _ := try(t, "logs", id)
	environment := docker(t, "exec", "--user", "postgres", id, "sh", "-c", "tr '\\0' '\\n' </proc/1/environ") + docker(t, "inspect", id)
	for where, text := range map[string]string{"log": logs, "environment": environment} {
		assert.NotContains(t, text, password, "the password is in the "+where)
	}

	assert.Equal(t, "0", stop(t, id))
	docker(t, "start", id)
	eventually(t, id, serving(id, "owner")...)
	assert.Equal(t, "2", docker(t, query(id, "owner", "payouts", password, "SELECT count(*) FROM made")...), "the set-up ran again")
}

// TestPostgresKilledInSetUp kills the first start in the middle: the next one makes a whole database of it.
func TestPostgresKilledInSetUp(t *testing.T) {
	name := image(t, "POSTGRES_IMAGE")
	id := container(t, map[string]string{
		"/docker-entrypoint-initdb.d/hold.sh": `[ -e /tmp/once ] || { touch /tmp/once; mkfifo /tmp/go; read -r _ </tmp/go; }; psql -U "$POSTGRES_USER" -c "CREATE TABLE made ()"`,
	}, "--env", "POSTGRES_PASSWORD=secret", name)
	eventually(t, id, "exec", id, "test", "-p", "/tmp/go")
	docker(t, "kill", id)
	docker(t, "start", id)
	eventually(t, id, serving(id, "postgres")...)
	if strings.HasPrefix(name, "railguard-src/") { // the official image serves a database that its scripts never reached
		docker(t, query(id, "postgres", "postgres", "secret", "SELECT count(*) FROM made")...)
	}
}

func TestPostgresHardened(t *testing.T) {
	id := container(t, map[string]string{"/password": "secret"}, "--env", "POSTGRES_PASSWORD_FILE=/password", "--security-opt", "no-new-privileges",
		"--cap-drop", "ALL", "--cap-add", "CHOWN", "--cap-add", "FOWNER", "--cap-add", "DAC_OVERRIDE", "--cap-add", "SETUID", "--cap-add", "SETGID", image(t, "POSTGRES_IMAGE"))
	eventually(t, id, serving(id, "postgres")...)
	status := docker(t, "exec", "--user", "postgres", id, "grep", "-E", "^Cap(Eff|Prm):", "/proc/1/status")
	assert.Regexp(t, `CapPrm:\s+0+\nCapEff:\s+0+$`, status, "the server keeps capabilities")
}

func TestPostgresSaysWhatIsMissing(t *testing.T) {
	name := image(t, "POSTGRES_IMAGE")
	for args, says := range map[string]string{
		"":                                     "POSTGRES_PASSWORD",
		"--env=POSTGRES_PASSWORD_FILE=/absent": "/absent",
		"--env=POSTGRES_PASSWORD_FILE=/a --env=POSTGRES_PASSWORD=b": "both",
	} {
		run := append([]string{"run", "--rm", "--label", owned}, strings.Fields(args)...)
		out, err := try(t, append(run, name)...)
		require.Error(t, err, args)
		assert.Contains(t, out, says)
	}
}
