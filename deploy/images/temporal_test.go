//go:build images

package images_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTemporal sets up a server on PostgreSQL with the tools, asks it through its command line, and looks at it through the UI.
func TestTemporal(t *testing.T) {
	net := network(t)
	db := container(t, nil, "--network", net, "--network-alias", "temporaldb", "--env", "POSTGRES_USER=temporal", "--env", "POSTGRES_PASSWORD=secret",
		image(t, "POSTGRES_IMAGE"))
	eventually(t, db, serving(db, "temporal")...)

	tools := container(t, nil, "--network", net, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--env", "SQL_PASSWORD=secret",
		image(t, "TEMPORAL_ADMIN_TOOLS_IMAGE"))
	uid, _ := first(t, tools)
	assert.Equal(t, "1000", uid)
	for database, schema := range map[string]string{"temporal_server": "postgresql/v12/temporal", "temporal_visibility": "postgresql/v12/visibility"} {
		for _, step := range [][]string{{"create"}, {"setup-schema", "-v", "0.0"}, {"update-schema", "--schema-name", schema}} {
			docker(t, append([]string{"exec", tools, "temporal-sql-tool", "--plugin", "postgres12_pgx", "--endpoint", "temporaldb", "--port", "5432",
				"--user", "temporal", "--database", database}, step...)...)
		}
	}

	server := container(t, map[string]string{"/etc/temporal/dynamic.yaml": "{}\n"}, "--network", net, "--network-alias", "temporal",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--env", "DB=postgres12_pgx", "--env", "POSTGRES_SEEDS=temporaldb", "--env", "DB_PORT=5432", "--env", "POSTGRES_USER=temporal", "--env", "POSTGRES_PWD=secret",
		"--env", "DBNAME=temporal_server", "--env", "VISIBILITY_DBNAME=temporal_visibility", "--env", "NUM_HISTORY_SHARDS=4",
		"--env", "DYNAMIC_CONFIG_FILE_PATH=/etc/temporal/dynamic.yaml", "--env", "BIND_ON_IP=0.0.0.0", "--env", "TEMPORAL_BROADCAST_ADDRESS=127.0.0.1",
		image(t, "TEMPORAL_IMAGE"))
	eventually(t, server, "exec", server, "nc", "-z", "localhost", "7233")
	uid, command := first(t, server)
	assert.Equal(t, "1000", uid)
	assert.Equal(t, "temporal-server start", command)

	temporal := []string{"exec", tools, "temporal", "--address", "temporal:7233"}
	assert.Contains(t, eventually(t, server, append(temporal, "operator", "cluster", "health")...), "SERVING")
	eventually(t, server, append(temporal, "operator", "namespace", "create", "--namespace", "payouts")...)
	eventually(t, server, append(temporal, "workflow", "start", "--namespace", "payouts", "--type", "w", "--task-queue", "q", "--workflow-id", "one")...)

	// As process 1 the UI would end with code 2 when it is told to stop: it has no handler, and the kernel does not end process 1 for that.
	ui := container(t, nil, "--init", "--network", net, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--env", "TEMPORAL_ADDRESS=temporal:7233",
		image(t, "TEMPORAL_UI_IMAGE"))
	eventually(t, ui, "exec", ui, "wget", "-q", "-O", "-", "http://127.0.0.1:8080/healthz")
	uid, _ = first(t, ui)
	assert.Equal(t, "1000", uid)
	assert.Contains(t, docker(t, "exec", ui, "wget", "-q", "-O", "-", "http://127.0.0.1:8080/api/v1/namespaces/payouts"), `"payouts"`)
	assert.Contains(t, docker(t, "exec", ui, "wget", "-q", "-O", "-", "http://127.0.0.1:8080/"), "<html")

	for _, id := range []string{ui, server} {
		assert.Contains(t, []string{"0", "143"}, stop(t, id))
	}
}
