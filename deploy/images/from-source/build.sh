#!/usr/bin/env bash
# Builds the stand-ins of images.txt, each unless it is up to date, and makes compose use them. build.sh NAME… builds these only, with what they
# stand on. It needs the Go module proxy and a Debian mirror, and takes both from the configuration of this machine: GOPROXY of `go env`, and
# what apt has for Debian 12, or DEBIAN_MIRROR and DEBIAN_SECURITY_MIRROR.
# shellcheck source-path=SCRIPTDIR/..
. "$(dirname "$0")/../common.sh"
recipes=$images/from-source
suite=bookworm
base=railguard-src/base:$suite
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# attempt WHAT COMMAND… runs the command quietly; where it fails, its last lines and WHAT tell why.
attempt() {
	local what=$1
	shift
	"$@" >"$scratch/log" 2>&1 </dev/null && return
	tail -n 15 "$scratch/log" >&2
	fail "$what"
}

# An image carries the hash of all that it is made of: equal means up to date.
up_to_date() { [ "$(docker image inspect --format '{{index .Config.Labels "railguard.recipe"}}' "$1" 2>/dev/null)" = "$2" ]; }
id_of() { docker image inspect --format '{{.Id}}' "$1"; }
hash_of() { sha256sum | cut -d ' ' -f 1; }
files_hash() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum) | hash_of; }

said_at=0
say() { echo "building $1"; said_at=$SECONDS; }
built() { echo "built $1 in $((SECONDS - said_at)) s"; }

# --- Debian

# mirror_of SUITE prints the address that apt of this machine has for it.
mirror_of() {
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
		awk -v suite="$1" '$2 == suite && $3 == "main" { print $1; exit }'
}

find_mirrors() {
	mirror=${DEBIAN_MIRROR:-$(mirror_of $suite)}
	security=${DEBIAN_SECURITY_MIRROR:-$(mirror_of $suite-security)}
	[ -n "$mirror" ] || fail "apt of this machine has no mirror of Debian 12 ($suite); name one: DEBIAN_MIRROR=URL [DEBIAN_SECURITY_MIRROR=URL]"
	sources="deb $mirror $suite main"
	[ -z "$security" ] || sources+=$'\n'"deb $security $suite-security main"
	# A proxy that only apt knows of is wanted by debootstrap and in the containers too.
	if [ -z "${http_proxy:-}" ] && command -v apt-config >/dev/null; then
		eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
		[ -z "${http_proxy:-}" ] || export http_proxy
	fi
}

# debootstrap is a folder of scripts: where it is not installed, its package is unpacked for this run and nothing is installed.
debootstrap_command() {
	if command -v debootstrap >/dev/null; then
		bootstrap=(debootstrap)
		return
	fi
	mkdir -p "$scratch/deb"
	chmod 755 "$scratch" "$scratch/deb"
	(cd "$scratch/deb" && { apt-get download -qq debootstrap || { apt-get update -qq && apt-get download -qq debootstrap; }; }) >"$scratch/log" 2>&1 ||
		{ tail -n 5 "$scratch/log" >&2; fail "debootstrap is not installed, and its package could not be fetched from the Debian mirror"; }
	dpkg -x "$scratch"/deb/debootstrap_*.deb "$scratch/deb"
	bootstrap=(env DEBOOTSTRAP_DIR="$scratch/deb/usr/share/debootstrap" "$scratch/deb/usr/sbin/debootstrap")
}

build_base() {
	find_mirrors
	local hash
	hash=$(printf '%s\n' "$suite" "$sources" "base 1" | hash_of)
	up_to_date "$base" "$hash" && return
	[ "$(id -u)" = 0 ] || fail "$base: debootstrap needs root: sudo make images FROM_SOURCE=1"
	say "$base"
	debootstrap_command
	attempt "$base: the Debian mirror $mirror could not be reached, or does not have $suite" \
		"${bootstrap[@]}" --variant=minbase --include=ca-certificates "$suite" "$scratch/rootfs" "$mirror"
	printf '%s\n' "$sources" >"$scratch/rootfs/etc/apt/sources.list"
	# Packages must start no service, and bring no manuals.
	printf '#!/bin/sh\nexit 101\n' >"$scratch/rootfs/usr/sbin/policy-rc.d"
	chmod 755 "$scratch/rootfs/usr/sbin/policy-rc.d"
	printf 'path-exclude /usr/share/doc/*\npath-include /usr/share/doc/*/copyright\npath-exclude /usr/share/man/*\n' >"$scratch/rootfs/etc/dpkg/dpkg.cfg.d/slim"
	rm -rf "$scratch/rootfs"/var/cache/apt/*.bin "$scratch/rootfs"/var/cache/apt/archives/*.deb "$scratch/rootfs"/var/lib/apt/lists/* "$scratch/rootfs"/var/log/*.log \
		"$scratch/rootfs"/usr/share/man/* "$scratch/rootfs"/etc/hostname "$scratch/rootfs"/etc/resolv.conf
	find "$scratch/rootfs/usr/share/doc" -type f ! -name copyright -delete
	tar -C "$scratch/rootfs" -cf "$scratch/rootfs.tar" .
	attempt "$base: docker import failed" docker import --change "LABEL railguard.recipe=$hash" --change 'CMD ["bash"]' "$scratch/rootfs.tar" "$base"
	rm -rf "$scratch/rootfs" "$scratch/rootfs.tar"
	built "$base"
}

# --- images

# Without buildx the client has only the classic builder. The recipes are written for both.
docker_build() {
	local flags=() name old
	for name in http_proxy https_proxy no_proxy; do [ -z "${!name:-}" ] || flags+=(--build-arg "$name"); done
	docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
	old=$(id_of "$1" 2>/dev/null) || old=
	docker build --quiet --label "railguard.recipe=$3" --build-arg "BASE=$base" "${flags[@]}" --tag "$1" "$2" || return
	# What it replaces would stay as an image without a name; where a container still uses it, it does.
	[ -z "$old" ] || docker rmi "$old" || true
}

# build TAG RECIPE [NAME=GO_RECIPE:PACKAGE…] builds the image of a recipe folder. Each NAME is a program of the tool module in the folder GO_RECIPE.
build() {
	local tag=$1 recipe=$2 hash context=$scratch/context program
	shift 2
	hash=$({
		id_of "$base"
		files_hash "$recipes/$recipe"
		for program in "$@"; do
			program=${program#*=}
			files_hash "$recipes/${program%%:*}" # with its go.sum
		done
		printf '%s\n' "$@" "$go_version"
	} | hash_of)
	up_to_date "$tag" "$hash" && return
	say "$tag"
	mkdir "$context"
	find "$recipes/$recipe" -maxdepth 1 -type f ! -name 'go.*' -exec cp {} "$context/" \;
	for program in "$@"; do go_build "$tag" "${program%%=*}" "${program#*=}"; done
	"prepare_${recipe//-/_}" "$context" 2>"$scratch/log" || { cat "$scratch/log" >&2; fail "$tag: its context could not be made"; }
	chmod -R u=rwX,go=rX "$context" # whatever the umask of this shell is
	attempt "$tag: docker build failed; where it says that apt could not fetch, containers do not reach the Debian mirror $mirror" docker_build "$tag" "$context" "$hash"
	rm -rf "$context"
	built "$tag"
}

prepare_postgres() { :; }
# An image without a shell makes no folders, so they come with the context.
prepare_etcd() {
	mkdir -p "$1/rootfs/usr/local/bin" "$1/rootfs/var/lib/etcd"
	mv "$1/etcd" "$1/etcdctl" "$1/rootfs/usr/local/bin/"
}
prepare_temporal_server() { :; }
prepare_temporal_admin_tools() { :; }
prepare_prometheus() { :; }
# The configuration of the UI is a template in its module that reads the environment.
prepare_temporal_ui() {
	local module
	module=$(in_module temporal-ui list -m -f '{{.Dir}}' github.com/temporalio/ui-server/v2)
	install -m 644 "$module/config/docker.yaml" "$1/docker.yaml"
}

# --- Go

in_module() {
	local folder=$1
	shift
	(cd "$recipes/$folder" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off go "$@")
}

# proxies prints where modules come from, without the credentials that such an address may hold.
proxies() { GOTOOLCHAIN=local go env GOPROXY | sed 's,//[^/@]*@,//,g'; }

# go_build IMAGE NAME RECIPE:PACKAGE[:VARIABLE=VALUE] puts the program into the context. VARIABLE is a string that is set when it is linked.
go_build() {
	local image=$1 name=$2 recipe package set flags='-s -w -buildid='
	IFS=: read -r recipe package set <<<"$3"
	[ -z "$set" ] || flags+=" -X $set"
	attempt "$image: the modules of $package could not be had from the Go module proxy, $(proxies)" \
		in_module "$recipe" list -deps "$package"
	attempt "$image: $package does not compile" \
		in_module "$recipe" build -trimpath -buildvcs=false -ldflags "$flags" -o "$context/$name" "$package"
}

# The toolchain is that of the builder's tag: the one that is installed, or else the go command fetches it from the module proxy.
find_go() {
	command -v go >/dev/null || fail "Go is not installed"
	[ "$(go env GOVERSION)" = "go$go_version" ] || export GOTOOLCHAIN=go$go_version
	go_root=$(go env GOROOT 2>"$scratch/log") ||
		fail "Go $go_version is not installed, and the Go module proxy ($(proxies)) does not give it: $(tail -n 1 "$scratch/log")"
}

# What the builder needs to know of the way to the module proxy; go.env is where a toolchain keeps its defaults.
go_settings() {
	local name value
	for name in GOPROXY GOSUMDB GONOPROXY GONOSUMDB GOPRIVATE; do
		value=$(go env "$name")
		[ -z "$value" ] || printf '%s=%s\n' "$name" "$value"
	done
	echo GOTOOLCHAIN=local
}

build_golang() {
	local tag=$1 hash context=$scratch/context authorities=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
	[ -r "$authorities" ] || fail "$tag: $authorities, the certificate authorities that this machine trusts, cannot be read; name a file: SSL_CERT_FILE=PATH"
	hash=$({ id_of "$base"; files_hash "$recipes/golang"; cat "$authorities" "$go_root/VERSION"; go_settings; } | hash_of)
	up_to_date "$tag" "$hash" && return
	say "$tag"
	mkdir -p "$context/go"
	tar -C "$go_root" -c --exclude=./api --exclude=./doc --exclude=./misc --exclude=./test . | tar -C "$context/go" -x --no-same-owner
	go_settings >"$context/go/go.env"
	cp "$recipes/golang/Dockerfile" "$context/"
	install -m 644 "$authorities" "$context/host-ca.crt"
	attempt "$tag: docker build failed" docker_build "$tag" "$context" "$hash"
	rm -rf "$context"
	built "$tag"
}

# --- all of them

need_engine
go_version=$(table | sed -n 's,.*railguard-src/golang:,,p')
find_go
build_base
table | awk '{ print $1 "=" $3 }' >"$scratch/lines"
while IFS== read -r _ tag; do
	name=${tag#railguard-src/}
	version=${name#*:}
	name=${name%:*}
	[ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
	case $name in
	golang) build_golang "$tag" ;;
	etcd) build "$tag" etcd etcd=etcd:go.etcd.io/etcd/server/v3 etcdctl=etcd:./etcdctl ;;
	temporal-server) build "$tag" temporal-server temporal-server=temporal-server:go.temporal.io/server/cmd/server ;;
	temporal-admin-tools)
		build "$tag" temporal-admin-tools temporal-sql-tool=temporal-server:go.temporal.io/server/cmd/tools/sql \
			temporal=temporal-cli:github.com/temporalio/cli/cmd/temporal:github.com/temporalio/cli/internal/temporalcli.Version="$(
				cd "$recipes/temporal-cli" && awk '$1 == "github.com/temporalio/cli" { print substr($2, 2) }' go.mod)"
		;;
	temporal-ui) build "$tag" temporal-ui ui-server=temporal-ui:github.com/temporalio/ui-server/v2/cmd/server ;;
	postgres | prometheus) build "$tag" "$name" ;;
	*) fail "images.txt: there is no recipe for $tag" ;;
	esac
done <"$scratch/lines"
[ $# -gt 0 ] || set_env_lines none "$scratch/lines"
