#!/usr/bin/env bash
# gpu_job.sh [teleclass|taxoclass|pair]   The main job of a method (all) on the GPU beside the processor, 300 training and 100 test documents of
# the demo's corpus: figures near each other, the same files twice with --device.deterministic true; TELEClass also under mpirun, TaxoClass
# with self-training, its similarity from the sentence encoder or (pair) from a cross-encoder that it trains. Fails without a GPU.
#   PROGRAM (gpuhpc), DATA (debtags-topical), MODELS (holds all-MiniLM-L6-v2), MPIRUN: where they are not the repository's own
set -eu
here=$(dirname "$(realpath "$0")")
program=${PROGRAM:-$here/../../build/release/gpuhpc} data=${DATA:-$here/../../data/debtags-topical} models=${MODELS:-$here/../../.deps/models}
mpirun=${MPIRUN:-$here/../../scripts/mpirun.sh}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "gpu_job: $*" >&2; exit 1; }

mkdir -p "$work/input/train" "$work/input/test"
cp "$data"/labels.txt "$data"/label_hierarchy.txt "$data"/label_descriptions.txt "$work/input/"
for part in "train/corpus.txt 300" "test/corpus.txt 100" "test/doc2labels.txt 100"; do
  read -r file lines <<<"$part"
  gzip -dc "$data/$file.gz" | sed -n "1,${lines}p" >"$work/input/$file"
done
# job NAME COMMAND...   one run; its seconds are printed.
job() {
  local name=$1 start=$SECONDS; shift
  "$@" run --input.dir "$work/input" --pipeline.adapt none --run.dir "$work/$name" --model.encoder "$models/all-MiniLM-L6-v2" --eval.bootstrap-samples 50 \
    $options >"$work/$name.log" 2>&1 || { tail -20 "$work/$name.log" >&2; die "$name failed"; }
  echo "gpu_job: $name: $((SECONDS - start)) s"
}
figure() { sed -n "s/^ *\"$2\": \([0-9.]*\),*$/\1/p" "$work/$1/metrics.json"; }
# near WANTED RUN BOUND   RUN's figures are at most BOUND from those of the run WANTED; one of 100 documents is .01.
near() {
  local name wanted ours
  grep -q 'cuda:0' "$work/$2.log" || die "the run $2 does not say that it works on the GPU"
  for name in example_f1 micro_f1 precision_at_1 mrr_filtered; do
    wanted=$(figure "$1" $name) ours=$(figure "$2" $name)
    [ -n "$wanted" ] && [ -n "$ours" ] || die "metrics.json lacks $name"
    echo "gpu_job: $2: $name $ours, on the processor $wanted"
    awk -v a="$wanted" -v b="$ours" -v bound="$3" 'BEGIN {exit !(a - b < bound && b - a < bound)}' || die "$2: $name is $ours, on the processor $wanted"
  done
}
# same NAME OPTIONS...   Two runs with --device.deterministic true leave the same files.
same() {
  local name=$1 run file; shift
  for run in once twice; do options="--device.kind cuda --device.deterministic true $*" job "$name-$run" "$program"; done
  for file in predictions.jsonl submission.csv model/model.safetensors; do
    cmp "$work/$name-once/$file" "$work/$name-twice/$file" || die "--device.deterministic true: $name: $file differs between two runs"
  done
}
fp32="--train.precision fp32 --infer.precision fp32"

teleclass() {
  options="--device.kind cpu $fp32" job cpu "$program"
  options="--device.kind cuda $fp32" job cuda-fp32 "$program"
  options="--device.kind cuda" job cuda "$program"
  near cpu cuda-fp32 .03
  near cpu cuda .03
  same teleclass
  options="--device.kind cuda" job mpirun "$mpirun" 1 "$program"
  [ "$(wc -l <"$work/mpirun/predictions.jsonl")" = 100 ] || die "under mpirun: not 100 predictions"
}

# Core classes are chosen by comparing similarities, and what a cross-encoder learns from a few pairs lies close together: other rounding
# turns some of them, which is why the bounds are wider.
small="--pipeline.method taxoclass --train.epochs 1 --taxoclass.graph-hidden 64 --taxoclass.self-training-batches 4 --taxoclass.refresh 2"
taxoclass() {
  options="--device.kind cpu $fp32 $small" job taxoclass-cpu "$program"
  options="--device.kind cuda $fp32 $small" job taxoclass-fp32 "$program"
  options="--device.kind cuda $small" job taxoclass-cuda "$program"
  near taxoclass-cpu taxoclass-fp32 .03
  near taxoclass-cpu taxoclass-cuda .05
  # A head, then a row before the batches and one behind the first two at least.
  [ "$(wc -l <"$work/taxoclass-cuda/stages/06-self-training/self_training.tsv")" -ge 3 ] || die "self-training made no batches"
  same taxoclass "$small"
}

pair() {
  local pair="$small --taxoclass.similarity pair --taxoclass.pair-examples 1000 --taxoclass.premise-tokens 16 --scoring.class-texts name"
  options="--device.kind cpu $fp32 $pair" job pair-cpu "$program"
  options="--device.kind cuda $fp32 $pair" job pair-fp32 "$program"
  near pair-cpu pair-fp32 .1
  same pair "$pair"
}

case ${1:-all} in
  teleclass | taxoclass | pair) "$1" ;;
  all)
    teleclass
    taxoclass
    pair
    ;;
  *) die "$1 is neither teleclass nor taxoclass nor pair" ;;
esac
echo "gpu_job: passed"
