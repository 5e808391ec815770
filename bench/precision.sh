#!/usr/bin/env bash
# precision.sh [ARGUMENTS OF gpuhpc...]   Does training end at the same loss in fp32, bf16 and fp16? debtags-topical, the whole training
# corpus, a tenth held out: phases 1 to 4 once, then the training phase in each precision from the same files. Prints a table; fails when
# a validation loss differs from fp32's by more than 1%. The row `untrained` (rates of 0) shows how far training moves it. Runs go to runs/precision/.
set -eu
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc}
runs=runs/precision
rm -rf "$runs"
mkdir -p "$runs"
train() {
  local name=$1 start; shift
  [ "$name" = base ] || cp -r "$runs/base" "$runs/$name"
  start=$(date +%s.%N)
  if ! "$program" run --config gpuhpc.ini --pipeline.adapt none --run.dir "$runs/$name" "$@" >"$runs/$name.log" 2>&1; then
    echo "precision: $name failed; see $runs/$name.log" >&2
    tail -3 "$runs/$name.log" >&2
    exit 70
  fi
  awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN {printf "%.0f\n", b - a}' > "$runs/$name.seconds"
}
train base --pipeline.to hierarchy
for precision in fp32 bf16 fp16; do train "$precision" --pipeline.to training --train.validation .1 "$@" --train.precision "$precision"; done
train untrained --pipeline.to training --train.validation .1 "$@" --train.encoder-lr 0 --train.head-lr 0
python3 - "$runs" <<'PY'
import json, sys
runs = sys.argv[1]
print("| precision | validation loss | from fp32 | training loss, last tenth | skipped updates | seconds of phase 5 |\n|---|---|---|---|---|---|")
reference, worst = None, 0
for name in ("fp32", "bf16", "fp16", "untrained"):
    lines = [json.loads(line) for line in open(f"{runs}/{name}/stages/06-training/metrics.jsonl")]
    loss = [line["validation_loss"] for line in lines if "validation_loss" in line][-1]
    steps = [line for line in lines if "loss" in line]
    losses = [line["loss"] for line in steps if line["loss"] is not None]
    tenth = losses[-max(1, len(losses) // 10):]
    reference = reference or loss
    distance = loss / reference - 1
    if name != "untrained":
        worst = max(worst, abs(distance))
    print(f"| {name} | {loss:.5f} | {100 * distance:+.3f}% | {sum(tenth) / len(tenth):.5f} | {sum(line['skipped'] for line in steps)} of {len(steps)} "
          f"| {open(f'{runs}/{name}.seconds').read().strip()} |")
if not worst <= .01:
    sys.exit(f"precision: the validation losses differ by {100 * worst:.2f}%, more than 1%")
PY
