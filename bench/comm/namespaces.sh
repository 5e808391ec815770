#!/usr/bin/env bash
# namespaces.sh NODES RATE PROGRAM [ARGS...]   runs PROGRAM with one rank on each of NODES "nodes" of this machine (scripts/nodes.sh) with
# RATE a second between them (as tc says it: 1gbit, 100mbit; - for no limit). RANKS_PER_NODE=2 puts two ranks on a node. LINK_DOWN=S takes
# the last node's cable out after S seconds.
set -eu
nodes=$1 rate=$2; shift 2
. "$(dirname "$(realpath "$0")")/../../scripts/nodes.sh"
trap 'remove_nodes || true' EXIT
make_nodes "$nodes" "$rate"
if [ -n "${LINK_DOWN:-}" ]; then (sleep "$LINK_DOWN"; link_node "$nodes" down) & fi
mpirun_on_nodes "$nodes" "${RANKS_PER_NODE:-1}" "$@"
