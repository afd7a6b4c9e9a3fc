#!/bin/sh
# The server binds to the container's own address unless BIND_ON_IP says otherwise; with a wildcard it must be told what to tell its peers.
set -eu
own_address() { getent hosts "$(hostname)" | awk '{ print $1; exit }'; }
export BIND_ON_IP="${BIND_ON_IP:-$(own_address)}"
case $BIND_ON_IP in
0.0.0.0 | ::0) export TEMPORAL_BROADCAST_ADDRESS="${TEMPORAL_BROADCAST_ADDRESS:-$(own_address)}" ;;
esac
exec temporal-server start
