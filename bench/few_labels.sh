#!/usr/bin/env bash
# few_labels.sh [gpuhpc arguments]   What 10 to 400 labelled documents are worth on debtags-topical: `run` without labels, with random ones
# (three draws each, or DRAWS; SIZES: of how many) and with those that `select` asks for, beside logistic regression on the same vectors and labels. Labels are gold of the
# training corpus; the test side's gold is read for the figures alone. Needs build/release/gpuhpc and Python with the packages of
# bench/peers/requirements.txt (PYTHON: its command; GPUHPC: another program). The run stays in runs/few-labels. SEEDS=N: in place of all this, 50 and
# 100 documents of `select` and as many random ones, for N seeds of the training and of the draws. The encoder learns from the corpus anew for each: with
# `--model.encoder` of one that has learnt and `--pipeline.adapt none` the student's seed and the draws alone are others.
set -eu
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc} python=${PYTHON:-python3} run=runs/few-labels/run data=data/debtags-topical
[ -x "$program" ] || { echo "few_labels.sh: $program is not there: bash scripts/build.sh release gpuhpc" >&2; exit 78; }
"$python" -c 'import sklearn, h5py' || { echo "few_labels.sh: Python needs scikit-learn and h5py (PYTHON=...)" >&2; exit 78; }
mkdir -p runs/few-labels
label() { "$program" run --input.dir $data --run.dir $run --eval.bootstrap-samples 0 "$@" >runs/few-labels/log 2>&1 || { tail -3 runs/few-labels/log >&2; exit 70; }; }
peer() { "$python" bench/peers/few_labels.py --data $data --run $run "$@" | tee -a runs/few-labels/table; }
: >runs/few-labels/table
echo "| labels | which | Example-F1 | P@1 | macro-F1 | leaves expected | logistic regression: Example-F1 | its P@1 | ECE, best class | ECE, labels |"
echo "|---|---|---|---|---|---|---|---|---|---|"
# corrected NAME [ARGUMENTS...]: the row of the run with the labels that lie in labels.txt
corrected() {
  label --input.labels runs/few-labels/labels.txt "${@:2}"
  peer --row "$1" --labels runs/few-labels/labels.txt
}
draw() { peer --draw "$1" --seed "$2" --labels runs/few-labels/labels.txt; }
fill() { peer --fill runs/few-labels/select-"$1".csv --labels runs/few-labels/labels.txt; }
choose() { "$program" select --run.dir $run --select.documents "$1" --output.file runs/few-labels/select-"$1".csv >runs/few-labels/log 2>&1; }
if [ -n "${SEEDS:-}" ]; then
  for seed in $(seq "$SEEDS"); do
    label --train.seed "$seed" "$@"
    for size in 50 100; do choose $size; done
    for size in 50 100; do
      fill $size
      corrected "$size | select, seed $seed" --train.seed "$seed" "$@"
      draw $size "$seed"
      corrected "$size | random, seed $seed" --train.seed "$seed" "$@"
    done
  done
  exit
fi
label "$@"
peer --row "0 | none"
for size in ${SIZES:-10 25 50 100 250 400}; do
  for seed in $(seq "${DRAWS:-3}"); do
    draw $size "$seed"
    corrected "$size | random, draw $seed" "$@"
  done
done
label "$@"
for size in 25 50 100; do choose $size; done
for size in 25 50 100; do
  fill $size
  corrected "$size | select" "$@"
done
label --decode.expected-leaves 3 "$@"
peer --row "0 | none, L=3 given"
peer --means runs/few-labels/table
