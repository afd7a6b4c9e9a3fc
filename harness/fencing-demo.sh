#!/usr/bin/env bash
# The fencing experiment: freeze a worker in mid-payout and see what the money does. --help says how; harness/fencing-demo/README.md what and why.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
make -s -C "$root" build tool-temporal >&2
go build -C "$root" -o bin/fencing ./harness/fencing
exec "$root/bin/fencing" "$@" # in place of this shell: a signal to it is a signal to the experiment
