#!/usr/bin/env bash
# adapted_encoder.sh SECTIONS [gpuhpc arguments]   Labelling with the encoder as it is, and after `--pipeline.adapt sentences`: debtags-topical, the Amazon
# taxonomy with its generated reviews, and the folder SECTIONS that data_tools/make_sections.py wrote. No label is read while learning; gold for the figures alone.
set -eu
[ $# -ge 1 ] || { echo "usage: adapted_encoder.sh SECTIONS [gpuhpc arguments]" >&2; exit 2; }
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc} sections=$1 root=runs/adapted-encoder
shift
python3 bench/amazon_data.py $root/amazon
row() {  # name, input, leaves, adaptation, gpuhpc arguments
  local name=$1 input=$2 leaves=$3 adapt=$4 run=$root/$1-$4
  shift 4
  "$program" run --input.dir "$input" --run.dir "$run" --decode.expected-leaves "$leaves" --pipeline.adapt "$adapt" "$@" >"$run.log" 2>&1 ||
    { tail -3 "$run.log" >&2; exit 70; }
  python3 -c 'import json, sys; m = json.load(open(sys.argv[1])); print("| %s | %s | %.4f | %.4f | %.4f |" % (*sys.argv[2:], m["example_f1"], m["precision_at_1"], m["macro_f1"]))' \
    "$run/metrics.json" "$name, L=$leaves" "$adapt"
}
echo "| data | adaptation | Example-F1 | P@1 | macro-F1 |"
echo "|---|---|---|---|---|"
for adapt in none sentences; do
  row debtags data/debtags-topical 3 $adapt "$@"
  row amazon $root/amazon 1 $adapt "$@"
  row sections "$sections" 1 $adapt "$@"
done
