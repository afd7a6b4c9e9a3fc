#!/usr/bin/env bash
# The fencing experiment: freeze a worker in mid-payout and see what the money does. --help says how; harness/fencing-demo/README.md what and why.
set -euo pipefail
unset CDPATH # it would make cd print
root="$(cd -P -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)"
make -s -C "$root" build tool-temporal >&2 || exit 1
go build -C "$root" -o bin/fencing ./harness/fencing || exit 1
exec "$root/bin/fencing" "$@" # in place of this shell: a signal to it is a signal to the experiment
