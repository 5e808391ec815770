#!/usr/bin/env bash
# soak.sh SECONDS [RANKS]   a training with the real program that goes on for SECONDS (R14): a small BERT from the demo's texts, RANKS (2) ranks, a
# checkpoint every 20 updates, validation after each epoch, both logs. Every half minute it writes down each rank's resident memory and open
# descriptors; from the second quarter to the last neither may grow: the median of descriptors at all, the most memory by more than 1% and 4 MiB.
# At the end SIGUSR1: exit 75.
# GPUHPC names another binary.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:?usage: soak.sh SECONDS [RANKS]} ranks=${2:-2}
program=${GPUHPC:-build/release/gpuhpc}
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuhpc-soak-XXXXXX")
pid=0
cleanup() {
  [ "$pid" -gt 0 ] && kill -9 "$pid" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
die() { echo "soak: $*" >&2; tail -5 "$work/log" >&2 || true; exit 70; }

mkdir "$work/texts"
gzip -dc data/debtags-topical/train/corpus.txt.gz | cut -f2 | sed -n 1,300p > "$work/texts/texts.txt"
scripts/mpirun.sh "$ranks" "$program" pretrain --config configs/pretrain-cpu.ini --input.dir "$work/texts" --input.format lines --run.dir "$work/run" \
  --device.threads 1 --train.epochs 1000000 --train.batch 16 --train.micro-batch 4 --train.max-length 48 --train.checkpoint-every 20 \
  > "$work/log" 2>&1 < /dev/null &
pid=$!
sample=$((seconds / 40 > 30 ? 30 : seconds / 40 + 1))
begin=$SECONDS
while [ $((SECONDS - begin)) -lt "$seconds" ]; do
  sleep "$sample"
  kill -0 "$pid" 2>/dev/null || die "the training ended by itself"
  for rank in $(pgrep -P "$pid"); do
    echo "$((SECONDS - begin)) $rank $(awk '/^VmRSS/ {print $2}' "/proc/$rank/status") $(ls "/proc/$rank/fd" | wc -l)" >> "$work/samples"
  done
done
kill -USR1 "$pid"
code=0
wait "$pid" || code=$?
pid=0
[ "$code" = 75 ] || die "SIGUSR1 at the end: exit $code, not 75"
updates=$(wc -l < "$(find "$work/run" -name metrics.jsonl)")
[ "$updates" -gt 40 ] || die "only $updates updates: no checkpoint was due often enough to tell"
awk -v seconds="$seconds" -v updates="$updates" '
  function most(values, name, n,   i, top) {for (i = 1; i <= n[name]; i++) if (values[name, i] > top) top = values[name, i]; return top}
  function median(values, name, n,   i, j, less) {  # the smallest that at least half of them do not exceed
    for (i = 1; i <= n[name]; i++) {less = 0; for (j = 1; j <= n[name]; j++) less += values[name, j] <= values[name, i]
      if (2 * less >= n[name] && (best[name] == "" || values[name, i] < best[name])) best[name] = values[name, i]}
    return best[name]}
  {quarter = int(4 * $1 / seconds); name = $2 " " quarter; memory[name, ++count[name]] = $3; files[name, count[name]] = $4; rank[$2]}
  END {
    for (r in rank) {
      before = r " 1"; after = r " 3"; ranks++
      printf "rank %d: resident memory at most %d KiB in the second quarter, %d in the last; open descriptors %d, %d (medians)\n", ranks,
        most(memory, before, count), most(memory, after, count), median(files, before, count), median(files, after, count)
      if (most(memory, after, count) > 1.01 * most(memory, before, count) + 4096) grown = 1
      if (median(files, after, count) > median(files, before, count)) grown = 1
    }
    printf "%d updates in %d s on %d ranks: %s\n", updates, seconds, ranks, grown ? "it GROWS" : "flat"
    exit grown || ranks == 0
  }' "$work/samples" || die "memory or descriptors grow"
