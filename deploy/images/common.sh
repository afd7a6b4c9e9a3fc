# Sourced by the scripts of this folder. They print nothing where there is nothing to do.
# shellcheck shell=bash
set -euo pipefail
images=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
env_file=${COMPOSE_ENV_FILE:-$images/../compose/.env}

fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

need_engine() {
	command -v docker >/dev/null || fail "docker is not installed"
	local answer
	answer=$(docker version --format '{{.Server.Version}}' 2>&1) || fail "no Docker engine answers: $(tail -n 1 <<<"$answer")"
}

# table prints the lines of images.txt: variable, official image, stand-in.
table() { grep -Ev '^(#|$)' "$images/images.txt"; }

# set_env_lines KEEP FILE makes the lines of compose's .env file that name images those of FILE. KEEP is "others" where a line that names
# neither the official image nor a stand-in is somebody's own choice and stays. Every other line is left alone.
set_env_lines() {
	local keep=$1 lines=$2 new
	[ -e "$env_file" ] || [ -s "$lines" ] || return 0
	new=$(mktemp)
	if [ -e "$env_file" ]; then
		awk -v keep="$keep" 'NR == FNR { if ($0 !~ /^#/ && NF) image[$1]; next }
			{ name = $0; sub(/=.*/, "", name) }
			!(name in image) || (keep == "others" && $0 !~ "=railguard-src/")' "$images/images.txt" "$env_file" >"$new"
	fi
	cat "$lines" >>"$new"
	if ! cmp -s "$new" "$env_file"; then
		mkdir -p "$(dirname "$env_file")"
		cat "$new" >"$env_file" # and not mv: the file keeps its mode and owner
		echo "wrote the image lines of $(realpath --relative-to="$PWD" "$env_file")"
	fi
	rm -f "$new"
}
