#!/usr/bin/env bash
# expected_leaves.sh SECTIONS [gpuhpc arguments]   Does --decode.expected-leaves mean the same to both methods? TELEClass `recommended` and
# TaxoClass `fixed` on data of several paths (debtags-topical, 3 leaves) and of one (the Amazon taxonomy with its generated reviews, and the
# folder SECTIONS that data_tools/make_sections.py wrote), with the number of labels they give and that of gold.
# Gold is read for reporting only. GPUHPC=PROGRAM names another program; runs go to runs/expected-leaves.
set -eu
[ $# -ge 1 ] || { echo "usage: expected_leaves.sh SECTIONS [gpuhpc arguments]" >&2; exit 2; }
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc}
sections=$1; shift
root=runs/expected-leaves
amazon=$root/amazon
python3 bench/amazon_data.py "$amazon"
row() {  # name, input, leaves, method and preset, gpuhpc arguments
  local name=$1 input=$2 leaves=$3 method=$4 preset=$5 run=$root/$1-$4
  shift 5
  "$program" run --input.dir "$input" --run.dir "$run" --decode.expected-leaves "$leaves" --pipeline.method "$method" \
    --pipeline.preset "$preset" --pipeline.adapt none "$@" > "$run.log" 2>&1 || { tail -3 "$run.log" >&2; exit 70; }
  python3 - "$name" "$leaves" "$method $preset" "$run" "$input" <<'PY'
import gzip, json, os, sys
name, leaves, method, run, data = sys.argv[1:]
m = json.load(open(run + "/metrics.json"))
predicted = [len(json.loads(line)["labels"]) for line in open(run + "/predictions.jsonl")]
path = data + "/test/doc2labels.txt"
gold = [len(line.split("\t")[1].split(",")) for line in (open(path) if os.path.exists(path) else gzip.open(path + ".gz", "rt"))]
mean = lambda values: sum(values) / len(values)
print(f"| {name}, L={leaves} | {method} | {m['example_f1']:.3f} | {m['precision_at_1']:.3f} | {m['macro_f1']:.3f} | "
      f"{mean(predicted):.2f} | {mean(gold):.2f} | {m['ece_best']:.3f} | {m['ece_labels']:.3f} | {m['aurc']:.3f} |", flush=True)
PY
}
echo "| data | method | Example-F1 | P@1 | macro-F1 | labels per document | gold | ECE, best class | ECE, labels | AURC |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for method in "teleclass recommended" "taxoclass fixed"; do
  row debtags data/debtags-topical 3 $method "$@"
  row amazon "$amazon" 1 $method "$@"
  row sections "$sections" 1 $method "$@"
done
