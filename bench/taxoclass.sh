#!/usr/bin/env bash
# taxoclass.sh [RUN_FOLDER]   What each stage of TaxoClass adds on debtags-topical, test part; gold is read for the figures alone.
# The stages that two rows share run once. The row `pair` takes longest: it trains a cross-encoder and
# scores 400,000 pairs with it.
set -eu
cd "$(dirname "$0")/.."
program=build/release/gpuhpc
runs=${1:-runs/taxoclass-bench}
mkdir -p "$runs"
figures() { python3 -c 'import json,sys; m=json.load(open(sys.argv[1])); print("| %s | %s |" % (sys.argv[2], " | ".join("%.3f" % m[k] for k in ("example_f1","precision_at_1","precision_at_3","mrr_filtered","macro_f1"))))' "$@"; }
row() {  # name, folder, options
  local name=$1 run=$runs/$2
  shift 2
  "$program" run --config configs/taxoclass-cpu.ini --run.dir "$run" "$@" > "$run.log" 2>&1 || { tail -5 "$run.log" >&2; exit 1; }
  figures "$run/metrics.json" "$name"
}
none="--taxoclass.self-training-batches 0"
echo "| | Example-F1 | P@1 | P@3 | MRR | macro-F1 |"
echo "|---|---|---|---|---|---|"
row "similarity alone" graph $none --taxoclass.labels-from similarity
# Core classes and their ancestors as the prediction: the test texts stand for the corpus.
cores=$runs/cores
mkdir -p "$cores/input/test"
for name in labels label_hierarchy label_descriptions; do cp data/debtags-topical/$name.txt "$cores/input/"; done
for name in corpus doc2labels; do cp data/debtags-topical/test/$name.txt.gz "$cores/input/test/"; done
"$program" run --config configs/taxoclass-cpu.ini --input.dir "$cores/input" --run.dir "$cores/run" --pipeline.to cores > "$cores.log" 2>&1
python3 - "$cores"/run/stages/*-cores/core_classes.json > "$cores/submission.csv" <<'PY'
import json, sys
print("pid,labels")
for document, row in json.load(open(sys.argv[1])).items():
    print('%s,"%s"' % (document, ",".join(row["with ancestors"] or ["0"])))
PY
"$program" evaluate --input.dir "$cores/input" --run.dir "$cores" --eval.predictions "$cores/submission.csv" > /dev/null
python3 -c 'import json,sys; m=json.load(open(sys.argv[1])); print("| cores with their ancestors (test texts as the corpus) | %.3f | - | - | - | %.3f |" % (m["example_f1"], m["macro_f1"]))' "$cores/metrics.json"
row "classifier, no graph" plain $none --taxoclass.labels-from classifier --taxoclass.graph-layers 0
row "classifier with graph network" graph $none --taxoclass.labels-from classifier
row "+ self-training" graph --taxoclass.labels-from classifier
row "all together (\`fixed\`)" graph
row "all together, similarity by the backend \`pair\`" pair --taxoclass.similarity pair --taxoclass.premise-tokens 128
row "\`paper\`" paper --pipeline.preset paper --train.layers 3 --train.epochs 2 --train.max-length 96
