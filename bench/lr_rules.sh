#!/usr/bin/env bash
# lr_rules.sh [--documents N] [--batches "32 128 512"] [gpuhpc arguments]   How learning rates should follow the batch: final validation
# loss and Example-F1 of the student of `recommended` on debtags-topical (L = 3) for global batches under each --train.lr-rule, at equal
# epochs. --documents takes the first N training and N/2 test texts (default: all). Runs go to runs/lr-rules; all share the stages before training.
# Gold is read for reporting only. GPUHPC=PROGRAM names another program, LR_RULES_ROOT another folder for the runs.
set -eu
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc}
root=${LR_RULES_ROOT:-runs/lr-rules}
documents=; batches="32 64 128 256 512 1024"
while [ $# -gt 0 ]; do
  case $1 in
    --documents) documents=$2; shift 2 ;;
    --batches) batches=$2; shift 2 ;;
    *) break ;;
  esac
done
input=data/debtags-topical
if [ -n "$documents" ]; then
  input=$root/input
  mkdir -p "$input/train" "$input/test"
  cp data/debtags-topical/{labels,label_hierarchy,label_descriptions}.txt "$input"
  first() { gzip -dc "data/debtags-topical/$1.txt.gz" | awk -v n="$2" 'NR <= n' > "$input/$1.txt"; }
  first train/corpus "$documents"
  for name in corpus doc2labels; do first test/$name $((documents / 2)); done
fi
mkdir -p "$root"
echo "| batch | rule | updates | validation loss | Example-F1 |"
echo "|---|---|---|---|---|"
for batch in $batches; do
  for rule in none sqrt linear; do
    [ "$batch" != 32 ] || [ $rule = none ] || continue  # the batch that the rates are meant for: all rules are one
    log=$root/$batch-$rule.log
    "$program" run --input.dir "$input" --run.dir "$root/run" --pipeline.adapt none --decode.expected-leaves 3 --train.batch "$batch" --train.lr-rule $rule \
      --train.epochs 2 --train.validation .1 --eval.bootstrap-samples 50 "$@" > "$log" 2>&1 || { tail -3 "$log" >&2; exit 70; }
    python3 - "$root/run" "$batch" "$([ "$batch" = 32 ] && echo all || echo $rule)" <<'PY'
import json, sys
run, batch, rule = sys.argv[1:]
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
loss = [line["validation_loss"] for line in lines if "validation_loss" in line][-1]
steps = max(line["step"] for line in lines)
print(f"| {batch} | {rule} | {steps} | {loss:.4f} | {json.load(open(run + '/metrics.json'))['example_f1']:.4f} |", flush=True)
PY
  done
done
