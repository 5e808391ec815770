#!/usr/bin/env bash
# overlap.sh [arguments of overlap_bench]   What of the gradients' communication hides behind the backward pass, 2 and 4 ranks: over the
# shared memory of this machine, then (as root) between two "nodes" with 1 Gbit/s each way between them (bench/comm/namespaces.sh).
# Needs build/release/overlap_bench (cmake --preset release -DGPUHPC_BENCH=ON).
set -eu
cd "$(dirname "$0")/.."
bench=$PWD/${BENCH:-build/release/overlap_bench}
rate=${RATE:-1gbit}
for ranks in 2 4; do
  echo "== $ranks ranks, shared memory"
  scripts/mpirun.sh "$ranks" "$bench" "$@"
done
if [ "$(id -u)" != 0 ]; then
  echo "overlap.sh: only root can make network namespaces; the part with $rate is left out" >&2
  exit 0
fi
for ranks in 2 4; do
  echo "== $ranks ranks on two nodes, $rate between them"
  RANKS_PER_NODE=$((ranks / 2)) bash bench/comm/namespaces.sh 2 "$rate" "$bench" "$@"
done
