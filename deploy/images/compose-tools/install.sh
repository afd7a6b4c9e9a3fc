#!/usr/bin/env bash
# Installs Compose v2 as a plugin of the docker command, where `docker compose` does not work. It is built from its module at the version in go.mod.
set -euo pipefail
fail() { echo "compose-tools: $*" >&2; exit 1; }
folder=$(cd "$(dirname "$0")" && pwd)
docker compose version >/dev/null 2>&1 && exit 0
command -v docker >/dev/null || fail "docker is not installed"
command -v go >/dev/null || fail "Go is not installed"

package=github.com/docker/compose/v2/cmd
module=${package%/cmd}
version=$(awk -v module="$module" '$1 == module { print $2 }' "$folder/go.mod")
plugins=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins
started=$SECONDS
echo "building Docker Compose $version"
cd "$folder"
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off
answer=$(go list -deps "$package" 2>&1) ||
	fail "the Go module proxy ($(go env GOPROXY | sed 's,//[^/@]*@,//,g')) could not be reached, or does not have a module that Compose needs: $(tail -n 1 <<<"$answer")"
mkdir -p "$plugins"
new=$(mktemp "$plugins/.docker-compose.XXXXXX") # in the same folder, so that it is put in place whole or not at all
trap 'rm -f "$new"' EXIT
go build -trimpath -buildvcs=false -ldflags "-s -w -X $module/internal.Version=$version" -o "$new" "$package"
chmod 755 "$new"
mv "$new" "$plugins/docker-compose"
docker compose version >/dev/null || fail "docker does not take up the plugin in $plugins"
echo "installed Docker Compose $version in $plugins in $((SECONDS - started)) s"
