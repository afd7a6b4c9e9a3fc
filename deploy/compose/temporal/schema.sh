#!/bin/sh
# Creates Temporal's two databases and brings their schemas to the version of these tools. What is in place stays.
set -eu
SQL_PASSWORD=$(cat "$SQL_PASSWORD_FILE")
export SQL_PASSWORD

# tool DATABASE COMMAND… tries again while the database cannot do it; the last try tells why.
tool() {
	database=$1
	shift
	tries=5
	until answer=$(temporal-sql-tool --database "$database" "$@" 2>&1); do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || { echo "$answer" | tail -n 3; echo "temporal-schema: $* of $database failed"; exit 1; }
		sleep 2
	done
}

for database in temporal temporal_visibility; do
	tool "$database" create
	tool "$database" setup-schema -v 0.0
done
tool temporal update-schema --schema-name postgresql/v12/temporal
tool temporal_visibility update-schema --schema-name postgresql/v12/visibility
echo "temporal-schema: both databases are up to date"
