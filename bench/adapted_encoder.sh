#!/usr/bin/env bash
# adapted_encoder.sh SECTIONS [gpuhpc arguments]   Labelling with the encoder as it is, and after `--pipeline.adapt` with pairs of the corpus: debtags-topical, the Amazon
# taxonomy with its generated reviews, and the folder SECTIONS that data_tools/make_sections.py wrote. No label is read while learning; gold for the figures alone.
# DATA="debtags sections" and KINDS="none auto" choose rows. The last column is what a run says without labels: how high vectors alone rank classes that texts name.
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
  python3 - "$run" "$name, L=$leaves" "$adapt" <<'PY'
import json, re, sys
run, name, adapt = sys.argv[1:]
m = json.load(open(run + "/metrics.json"))
says = re.findall(r"mean reciprocal of ([\d.]+)", open(run + ".log").read())
print(f"| {name} | {adapt} | {m['example_f1']:.4f} | {m['precision_at_1']:.4f} | {m['macro_f1']:.4f} | {says[-1]} |", flush=True)
PY
}
echo "| data | adaptation | Example-F1 | P@1 | macro-F1 | named classes |"
echo "|---|---|---|---|---|---|"
for adapt in ${KINDS:-none auto neighbours both}; do
  for data in ${DATA:-debtags amazon sections}; do
    case $data in
      debtags) row debtags data/debtags-topical 3 "$adapt" "$@" ;;
      amazon) row amazon $root/amazon 1 "$adapt" "$@" ;;
      sections) row sections "$sections" 1 "$adapt" "$@" ;;
      *) echo "adapted_encoder.sh: DATA: $data is none of debtags, amazon, sections" >&2; exit 2 ;;
    esac
  done
done
