#!/usr/bin/env bash
# slow_rank.sh PROGRAM MODELS   two ranks train on real text, the second is stopped for 200 ms in every step: it is named within 50 steps.
set -eu
cd "$(dirname "$0")/../.."
program=$1 models=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuhpc-slow-rank-XXXXXX")
pid=0 slow=
cleanup() {
  [ "$pid" = 0 ] || kill -9 $slow "$pid" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
die() { echo "FAILED: $*"; cat "$work/log"; exit 1; }

mkdir -p "$work/input/train" "$work/input/test"
cp data/debtags-topical/label*.txt "$work/input"
gzip -dc data/debtags-topical/train/corpus.txt.gz | sed -n 1,176p >"$work/input/train/corpus.txt"
gzip -dc data/debtags-topical/test/corpus.txt.gz | sed -n 1,20p >"$work/input/test/corpus.txt"
arguments=(run --input.dir "$work/input" --run.dir "$work/run" --pipeline.adapt none --model.encoder "$models/all-MiniLM-L6-v2" --device.kind cpu --device.threads 1
           --train.precision fp32 --train.layers 1 --train.batch 8 --train.max-length 32 --pipeline.to training)  # 22 steps
scripts/mpirun.sh 2 "$program" "${arguments[@]}" >"$work/log" 2>&1 </dev/null &
pid=$!

lines() { find "$work/run/checkpoints" -name metrics.jsonl 2>/dev/null; }
until [ -n "$(lines)" ]; do
  kill -0 "$pid" 2>/dev/null || die "it ended without training"
  sleep .05
done
for process in $(pgrep -P "$pid"); do
  ! tr '\0' '\n' <"/proc/$process/environ" | grep -qx OMPI_COMM_WORLD_RANK=1 || slow=$process
done
stopped=0
# A line comes when rank 0 has finished a step; rank 1 is at the next one then.
while read -r -u 3 _; do
  kill -STOP "$slow" 2>/dev/null || break
  sleep .2
  kill -CONT "$slow" 2>/dev/null || break
  stopped=$((stopped + 1))
done 3< <(tail -n +1 -f --pid="$pid" "$(lines)" 2>/dev/null)
code=0
wait "$pid" || code=$?
pid=0
[ "$code" = 0 ] || die "exit $code"
steps=$(wc -l <"$work/run/stages/05-training/metrics.jsonl")
[ "$steps" -le 50 ] || die "$steps steps are too many to show anything"
[ "$stopped" -ge 20 ] || die "rank 1 was stopped $stopped times only"
grep "rank 1 on $(hostname) takes [0-9.]* times as long for a token" "$work/log" || die "rank 1 is not named"
! grep "rank 0 on .* takes" "$work/log" || die "rank 0 is named"
echo "rank 1 was stopped for 200 ms $stopped times in $steps steps"
cat "$work/run/stages/05-training/ranks.jsonl"
