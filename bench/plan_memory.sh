#!/usr/bin/env bash
# plan_memory.sh [ARGUMENTS OF gpuhpc plan...]   Is the memory that `gpuhpc plan` predicts what a training takes? Twelve configurations over
# BERT, DeBERTa and T5 and the four trainings, three updates each on made-up texts on this machine's processor; predicted and measured peak of
# the tensors' allocator. Prints a table; fails when one differs by more than 10%. GPUHPC=PROGRAM names another program.
set -eu
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
number=0
half=bf16
grep -qw avx512_bf16 /proc/cpuinfo || { half=fp32; echo "this processor has no bf16 products: the trainings in bf16 are done in fp32"; }
trial() {  # job model precision checkpointing micro-batch accumulation length options...
  local job=$1 model=$2 precision=$3 again=$4 documents=$5 accumulation=$6 length=$7
  shift 7
  number=$((number + 1))
  "$program" plan --device.kind cpu --plan.gpu cpu --plan.job "$job" --plan.model "$model" --train.precision "$precision" \
    --train.activation-checkpointing "$again" --train.micro-batch "$documents" --plan.global-batch $((documents * accumulation)) \
    --plan.length "$length" --plan.calibrate true --plan.calibration "$folder/$number.json" "$@" >"$folder/$number.log" 2>&1 ||
    { tail -3 "$folder/$number.log" >&2; exit 70; }
}
arguments=("$@")
trial run              minilm-l6       fp32 false 16 1 128 "${arguments[@]}"
trial run              bert-base       $half false 4  2 128 --train.layers -1 "${arguments[@]}"
trial run              bert-base       fp32 true  3  1 256 --train.layers -1 "${arguments[@]}"
trial train-embedding  minilm-l6       $half false 16 1 96 "${arguments[@]}"
trial train-embedding  mpnet-base      fp32 false 2  1 128 "${arguments[@]}"
trial train-embedding  deberta-v3-base fp32 false 2  1 96 "${arguments[@]}"
trial pretrain         small           fp32 false 16 4 128 "${arguments[@]}"
trial pretrain         bert-base       $half false 4  1 128 "${arguments[@]}"
trial pretrain         deberta-v3-base fp32 true  2  1 128 "${arguments[@]}"
trial train-seq2seq    t5-small        fp32 false 2  1 512 --train.optimizer adafactor "${arguments[@]}"
trial train-seq2seq    t5-base         $half true  2  1 256 "${arguments[@]}"
trial train-seq2seq    mt5-small       $half false 2  2 200 --seq2seq.label-smoothing .1 "${arguments[@]}"
python3 - "$folder" "$number" <<'PY'
import json, sys
folder, number = sys.argv[1], int(sys.argv[2])
jobs = ["run", "train-embedding", "pretrain", "train-seq2seq"]
print("| job | model | precision | layers computed again | micro-batch x length | predicted MiB | measured MiB | difference |\n|---|---|---|---|---|---|---|---|")
worst = 0
for i in range(1, number + 1):
    trial = json.load(open(f"{folder}/{i}.json"))["trials"][-1]
    off = trial["predicted"] / trial["measured"] - 1
    worst = max(worst, abs(off))
    print(f"| {jobs[trial['job']]} | {trial['model']} | {trial['precision']} | {'yes' if trial['checkpointing'] else 'no'} | {trial['documents']} x {trial['length']} "
          f"| {trial['predicted'] / 2**20:,.0f} | {trial['measured'] / 2**20:,.0f} | {100 * off:+.1f}% |")
print(f"\nworst difference {100 * worst:.1f}%")
sys.exit(0 if worst <= .1 else 1)
PY
