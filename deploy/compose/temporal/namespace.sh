#!/bin/sh
# Makes sure that the namespace is there and can be used: a server that has just started does not know its namespaces yet.
set -eu
tries=60
until answer=$(temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" 2>&1 &&
	temporal workflow list --namespace "$TEMPORAL_NAMESPACE" --limit 1 2>&1); do
	case $answer in
	*"not found"*) answer=$(temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION" 2>&1) || true ;;
	esac
	tries=$((tries - 1))
	[ "$tries" -gt 0 ] || { echo "$answer" | tail -n 3; echo "temporal-namespace: namespace $TEMPORAL_NAMESPACE cannot be used"; exit 1; }
	sleep 1
done
echo "temporal-namespace: namespace $TEMPORAL_NAMESPACE is there"
