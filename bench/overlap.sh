#!/usr/bin/env bash
# overlap.sh [arguments of overlap_bench]   What of the gradients' communication hides behind the backward pass, 2 and 4 ranks: over the
# shared memory of this machine, then (as root) between two "nodes" with 1 Gbit/s each way between them (bench/comm/namespaces.sh).
# PLACES="machine": the first part alone. Needs build/release/overlap_bench (cmake --preset release -DGPUHPC_BENCH=ON).
set -eu
cd "$(dirname "$0")/.."
bench=$PWD/${BENCH:-build/release/overlap_bench}
rate=${RATE:-1gbit} places=" ${PLACES:-machine nodes} "
[ -x "$bench" ] || { echo "overlap.sh: $bench is not there: cmake --preset release -DGPUHPC_BENCH=ON && cmake --build build/release --target overlap_bench" >&2; exit 78; }
if [[ $places == *" nodes "* ]] && [ "$(id -u)" != 0 ]; then
  echo "overlap.sh: only root can make network namespaces; run it as root, or the part without them: PLACES=machine" >&2
  exit 78
fi
for ranks in 2 4; do
  [[ $places == *" machine "* ]] || break
  echo "== $ranks ranks, shared memory"
  scripts/mpirun.sh "$ranks" "$bench" "$@"
done
for ranks in 2 4; do
  [[ $places == *" nodes "* ]] || break
  echo "== $ranks ranks on two nodes, $rate between them"
  RANKS_PER_NODE=$((ranks / 2)) bash bench/comm/namespaces.sh 2 "$rate" "$bench" "$@"
done
