#!/usr/bin/env bash
# gpu_job.sh   The main job on the GPU beside the processor, 300 training and 100 test documents of the demo's corpus: figures near each
# other, the same files twice with --device.deterministic true, and under mpirun. Fails without a GPU.
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
  "$@" run --input.dir "$work/input" --run.dir "$work/$name" --model.encoder "$models/all-MiniLM-L6-v2" --eval.bootstrap-samples 50 \
    $options >"$work/$name.log" 2>&1 || { tail -20 "$work/$name.log" >&2; die "$name failed"; }
  echo "gpu_job: $name: $((SECONDS - start)) s"
}
figure() { sed -n "s/^ *\"$2\": \([0-9.]*\),*$/\1/p" "$work/$1/metrics.json"; }

options="--device.kind cpu --train.precision fp32 --infer.precision fp32" job cpu "$program"
options="--device.kind cuda --train.precision fp32 --infer.precision fp32" job cuda-fp32 "$program"
options="--device.kind cuda" job cuda "$program"
grep -q 'cuda:0' "$work/cuda.log" || die "the run does not say that it works on the GPU"
for run in cuda-fp32 cuda; do
  for name in example_f1 micro_f1 precision_at_1 mrr_filtered; do
    wanted=$(figure cpu $name) ours=$(figure $run $name)
    [ -n "$wanted" ] && [ -n "$ours" ] || die "metrics.json lacks $name"
    echo "gpu_job: $run: $name $ours, on the processor $wanted"
    # One of 100 documents is .01.
    awk -v a="$wanted" -v b="$ours" 'BEGIN {exit !(a - b < .03 && b - a < .03)}' || die "$run: $name is $ours, on the processor $wanted"
  done
done
for name in once twice; do options="--device.kind cuda --device.deterministic true" job $name "$program"; done
for file in predictions.jsonl submission.csv model/model.safetensors; do
  cmp "$work/once/$file" "$work/twice/$file" || die "--device.deterministic true: $file differs between two runs"
done
options="--device.kind cuda" job mpirun "$mpirun" 1 "$program"
[ "$(wc -l <"$work/mpirun/predictions.jsonl")" = 100 ] || die "under mpirun: not 100 predictions"
echo "gpu_job: passed"
