#!/usr/bin/env bash
# adapted_encoder.sh [RUN_FOLDER [EPOCHS]]   Labelling debtags-topical with the encoder as it is, and after `train-embedding` on the corpus' own pairs:
# the first sentence of each training text and the rest of it. No label is read while learning; gold of the test side for the figures alone.
set -eu
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc} runs=${1:-runs/adapted-encoder} epochs=${2:-1}
mkdir -p "$runs"
gzip -dc data/debtags-topical/train/corpus.txt.gz | python3 -c '
import json, sys
for line in sys.stdin:
    title, dot, body = line.rstrip("\n").split("\t", 1)[1].partition(". ")
    if title and body.strip():
        print(json.dumps({"anchor": title, "positive": body}))' >"$runs/pairs.jsonl"
echo "$(wc -l <"$runs/pairs.jsonl") pairs of first sentence and rest, $epochs epoch(s)"
label() { "$program" run --input.dir data/debtags-topical --decode.expected-leaves 3 --device.kind cpu "$@" >"$runs/log" 2>&1 || { tail -3 "$runs/log" >&2; exit 1; }; }
row() { python3 -c 'import json, sys; m = json.load(open(sys.argv[1])); print("| %s | %.4f | %.4f | %.4f |" % (sys.argv[2], m["example_f1"], m["precision_at_1"], m["macro_f1"]))' "$@"; }
label --run.dir "$runs/before"
"$program" train-embedding --config configs/sbert-cpu.ini --embedding.train "$runs/pairs.jsonl" --run.dir "$runs/encoder" --train.epochs "$epochs" --train.batch 64 \
  --train.micro-batch 64 >"$runs/log" 2>&1 || { tail -3 "$runs/log" >&2; exit 1; }
label --run.dir "$runs/after" --model.encoder "$runs/encoder/model"
echo "| encoder | Example-F1 | P@1 | macro-F1 |"
echo "|---|---|---|---|"
row "$runs/before/metrics.json" "as it is"
row "$runs/after/metrics.json" "after $epochs epoch(s) on first sentence and rest"
