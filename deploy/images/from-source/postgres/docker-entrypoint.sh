#!/bin/bash
# Prepares the data folder on the first start and becomes the server. It honours POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB (each also as
# NAME_FILE), POSTGRES_INITDB_ARGS, POSTGRES_HOST_AUTH_METHOD, PGDATA and /docker-entrypoint-initdb.d, as the official image does.
set -euo pipefail
shopt -s dotglob nullglob

fail() { echo "docker-entrypoint: $*" >&2; exit 1; }

# from_file NAME DEFAULT sets NAME from itself, from the file that NAME_FILE names, or to the default.
from_file() {
	local name=$1 file=${1}_FILE
	if [ -n "${!name:-}" ] && [ -n "${!file:-}" ]; then
		fail "$name and $file are both set; set one"
	fi
	if [ -n "${!file:-}" ]; then
		[ -r "${!file}" ] || fail "$file: ${!file} cannot be read by user $(id -u)"
		printf -v "$name" %s "$(<"${!file}")"
	else
		printf -v "$name" %s "${!name:-$2}"
	fi
	export "${name?}"
	unset "$file"
}

run_scripts() {
	local f
	for f in /docker-entrypoint-initdb.d/*; do
		case $f in
		*.sh) if [ -x "$f" ]; then "$f"; else . "$f"; fi ;;
		*.sql) psql_setup --file "$f" ;;
		*.sql.gz) gunzip -c "$f" | psql_setup ;;
		*) echo "docker-entrypoint: $f is not a script; left alone" >&2 ;;
		esac
	done
}

psql_setup() { psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" "$@"; }

# The set-up happens in a folder inside the data folder. What a kill leaves behind is thus known to be half a set-up and is made again, where half a
# data folder would look like a whole one. The server of the set-up has no TCP port and its socket is elsewhere: no client and no health
# check takes it for the real one.
set_up() {
	local method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256} data=$PGDATA socket password=()
	[ -n "$POSTGRES_PASSWORD" ] || [ "$method" = trust ] ||
		fail "POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE must be set: the data folder is empty and the superuser needs a password"
	if [ -e "$PGDATA/.setup" ]; then
		echo "docker-entrypoint: the last set-up did not end; starting over" >&2
		rm -rf "${PGDATA:?}"/*
	fi
	[ -z "$(find "$PGDATA" -mindepth 1 -maxdepth 1 ! -name lost+found -print -quit)" ] || fail "$PGDATA holds files, but no database"
	# No subshell around this: in one, bash may become the last command of a script that it sources.
	socket=$(mktemp -d)
	export PGDATA=$data/.setup PGHOST=$socket PGPASSWORD=$POSTGRES_PASSWORD
	[ -z "$POSTGRES_PASSWORD" ] || password=(--pwfile=/dev/fd/3)
	# Words on purpose: the variable holds options.
	# shellcheck disable=SC2086
	initdb --username="$POSTGRES_USER" --auth-local=trust --auth-host="$method" "${password[@]}" ${POSTGRES_INITDB_ARGS:-} 3<<<"$POSTGRES_PASSWORD"
	printf '\nhost all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"
	pg_ctl --wait --options="-c listen_addresses='' -k $socket" start
	if [ "$POSTGRES_DB" != postgres ]; then
		POSTGRES_DB=postgres psql_setup -v name="$POSTGRES_DB" <<<'CREATE DATABASE :"name"'
	fi
	run_scripts
	pg_ctl --wait --mode=fast stop
	export PGDATA=$data
	unset PGHOST PGPASSWORD
	rm -rf "$socket"
	for f in "$PGDATA/.setup"/*; do # the version last: it says that this is a data folder
		[ "$f" = "$PGDATA/.setup/PG_VERSION" ] || mv "$f" "$PGDATA/"
	done
	mv "$PGDATA/.setup/PG_VERSION" "$PGDATA/"
	rmdir "$PGDATA/.setup"
	echo "docker-entrypoint: the set-up is over"
}

[ "${1:-}" ] && [ "${1:0:1}" != - ] || set -- postgres "$@"
[ "$1" = postgres ] || exec "$@"

from_file POSTGRES_PASSWORD ''
from_file POSTGRES_USER postgres
from_file POSTGRES_DB "$POSTGRES_USER"
mkdir -p "$PGDATA"
if [ "$(id -u)" = 0 ]; then
	# Secrets and fresh volumes may be root's alone, so they are read and handed over here. The server itself refuses to be root.
	find "$PGDATA" \! -user postgres -exec chown postgres {} +
	chmod 700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups --inh-caps=-all "$0" "$@"
fi
[ -s "$PGDATA/PG_VERSION" ] || set_up
unset POSTGRES_PASSWORD
exec "$@"
