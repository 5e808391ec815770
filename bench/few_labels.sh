#!/usr/bin/env bash
# few_labels.sh [gpuhpc arguments]   What 10 to 400 labelled documents are worth on debtags-topical: `run` without labels, with random ones
# (three draws each, or DRAWS) and with those that `select` asks for, beside logistic regression on the same vectors and labels. Labels are gold of the
# training corpus; the test side's gold is read for the figures alone. Needs build/release/gpuhpc and Python with the packages of
# bench/peers/requirements.txt (PYTHON: its command). The run stays in runs/few-labels.
set -eu
cd "$(dirname "$0")/.."
program=build/release/gpuhpc python=${PYTHON:-python3} run=runs/few-labels/run data=data/debtags-topical
[ -x $program ] || { echo "few_labels.sh: $program is not there: bash scripts/build.sh release gpuhpc" >&2; exit 78; }
"$python" -c 'import sklearn, h5py' || { echo "few_labels.sh: Python needs scikit-learn and h5py (PYTHON=...)" >&2; exit 78; }
mkdir -p runs/few-labels
label() { $program run --input.dir $data --run.dir $run --eval.bootstrap-samples 0 "$@" >runs/few-labels/log 2>&1 || { tail -3 runs/few-labels/log >&2; exit 70; }; }
peer() { "$python" bench/peers/few_labels.py --data $data --run $run "$@" | tee -a runs/few-labels/table; }
: >runs/few-labels/table
echo "| labels | which | Example-F1 | P@1 | macro-F1 | leaves expected | logistic regression: Example-F1 | its P@1 | ECE, best class | ECE, labels |"
echo "|---|---|---|---|---|---|---|---|---|---|"
label "$@"
peer --row "0 | none"
label --decode.expected-leaves 3 "$@"
peer --row "0 | none, L=3 given"
for size in 10 25 50 100 250 400; do
  for seed in $(seq "${DRAWS:-3}"); do
    peer --draw $size --seed $seed --labels runs/few-labels/labels.txt
    label --input.labels runs/few-labels/labels.txt "$@"
    peer --row "$size | random, draw $seed" --labels runs/few-labels/labels.txt
  done
done
label "$@"
for size in 25 50 100; do
  $program select --run.dir $run --select.documents $size --output.file runs/few-labels/select-$size.csv >runs/few-labels/log 2>&1
done
for size in 25 50 100; do
  peer --fill runs/few-labels/select-$size.csv --labels runs/few-labels/labels.txt
  label --input.labels runs/few-labels/labels.txt "$@"
  peer --row "$size | select" --labels runs/few-labels/labels.txt
done
peer --means runs/few-labels/table
