#!/usr/bin/env bash
# scaling.sh   Weak and strong scaling of training over ranks of this machine and, as root, over "nodes" with 1 Gbit/s each way between them
# (bench/comm/namespaces.sh), one rank each; then a projection to more GPUs. Writes bench/results/DATE-scaling.md, .svg and .json (raw).
#   STEPS=12 RANKS="1 2 4" BATCH=32 STRONG_BATCH=128 RESULTS=bench/results PLACES="machine nodes" bash bench/scaling.sh [--train.precision fp32 ...]
# scaling.sh --collect OUT RUN...   one table (OUT.md, OUT.svg) from the run folders of jobs/slurm/scaling.sh
# Needs scaling_bench and scaling_table_bench in build/release (cmake --preset release -DGPUHPC_BENCH=ON).
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build/release}")
for program in scaling_bench scaling_table_bench; do
  [ -x "$build/$program" ] || { echo "scaling.sh: $build/$program is not there: cmake --preset release -DGPUHPC_BENCH=ON && cmake --build build/release --target scaling_bench scaling_table_bench" >&2; exit 78; }
done
if [ "${1:-}" = --collect ]; then
  exec "$build/scaling_table_bench" "$@"
fi
steps=${STEPS:-12} ranks=${RANKS:-1 2 4} batch=${BATCH:-32} strong=${STRONG_BATCH:-128} results=${RESULTS:-bench/results}
places=${PLACES:-machine nodes}
if [[ " $places " == *" nodes "* ]] && [ "$(id -u)" != 0 ]; then
  echo "scaling.sh: only root can make network namespaces; run it as root, or the part without them: PLACES=machine" >&2
  exit 78
fi
out=$results/$(date +%F)-scaling
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
raw=$work/runs.json
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit="$commit with changes"
printf '{"header": {"date": "%s", "commit": "%s", "machine": "%s cores (%s), load %s before the start", "command": "%s"}}\n' "$(date +%F)" "$commit" "$(nproc)" \
  "$(lscpu | sed -n 's/^Model name: *//p' | head -1)" "$(cut -d' ' -f1 /proc/loadavg)" "STEPS=$steps bash bench/scaling.sh${*:+ $*}" >"$raw"
export OMP_WAIT_POLICY=passive
# one KIND BATCH PLACE RANKS [OPTIONS...]
one() {
  local kind=$1 documents=$2 place=$3 count=$4; shift 4
  local program=("$build/scaling_bench" --scaling.output "$raw" --scaling.steps "$steps" --scaling.kind "$kind" --train.batch "$documents" --scaling.place "$place" "$@")
  echo "$(date +%T) $kind, $place, $count ranks${*:+, $*}" >&2
  local start=(scripts/mpirun.sh "$count")
  [ "$place" = machine ] || start=(bash bench/comm/namespaces.sh "$count" 1gbit)
  if ! "${start[@]}" "${program[@]}"; then
    mkdir -p "$results"; cp "$raw" "$out.partial.json"
    echo "scaling.sh: that run failed; those before it are in $out.partial.json" >&2
    exit 70
  fi
}
for place in $places; do
  for count in $ranks; do one weak "$batch" "$place" "$count" "$@"; done
  for count in $ranks; do one strong "$strong" "$place" "$count" "$@"; done
done
if [[ " $places " == *" nodes "* ]]; then
  for count in $ranks; do
    [ "$count" = 1 ] || one weak "$batch" nodes "$count" --parallel.reduce-type bf16 "$@"
  done
  for count in $ranks; do one weak "$batch" nodes "$count" --scaling.layers -1 "$@"; done
fi
mkdir -p "$results"
cp "$raw" "$out.json"
"$build/scaling_table_bench" "$out.json" "$out"
