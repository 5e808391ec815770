#!/usr/bin/env bash
# soak.sh SECONDS [RANKS]   a training with the real program that goes on for SECONDS (R14): a small BERT from the demo's texts, RANKS (2) ranks, a
# checkpoint every 20 updates, validation after each epoch, both logs. Every half minute it writes down each rank's resident memory and open
# descriptors; from the second quarter to the last neither may grow: the median of descriptors at all, the most memory by more than 1% and 4 MiB.
# At the end SIGUSR1: exit 75. Memory needs a minute or more to settle: for less it may say that it grows. GPUHPC names another binary.
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
python3 - "$seconds" "$updates" "$work/samples" <<'PYTHON' || die "memory or descriptors grow"
import collections, statistics, sys
seconds, updates = map(int, sys.argv[1:3])
quarters = collections.defaultdict(lambda: [([], []) for _ in range(5)])  # of each process: memory and descriptors
for line in open(sys.argv[3]):
    second, process, memory, files = map(int, line.split())
    for values, value in zip(quarters[process][4 * second // seconds], (memory, files)):
        values.append(value)
grown = False
for process, (_, before, _, after, _) in quarters.items():
    memory, files = [max(q[0]) for q in (before, after)], [statistics.median_low(q[1]) for q in (before, after)]
    print(f"process {process}: resident memory at most {memory[0]} KiB in the second quarter, {memory[1]} in the last; "
          f"open descriptors {files[0]}, {files[1]} (medians)")
    grown |= memory[1] > 1.01 * memory[0] + 4096 or files[1] > files[0]
print(f"{updates} updates in {seconds} s on {len(quarters)} ranks: {'it GROWS' if grown else 'flat'}")
sys.exit(grown or not quarters)
PYTHON
