#!/usr/bin/env bash
# Pulls the official images that are not here yet, and lets compose use them again after stand-ins.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"
need_engine
while read -r _ official _; do
	docker image inspect "$official" >/dev/null 2>&1 && continue
	echo "pulling $official"
	answer=$(docker pull --quiet "$official" 2>&1 </dev/null) ||
		fail "the registry of $official could not be reached or does not have it: $(tail -n 1 <<<"$answer")
Where no registry can be reached, build stand-ins: make images FROM_SOURCE=1"
done < <(table)
set_env_lines others /dev/null
