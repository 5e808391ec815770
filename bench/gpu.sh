#!/usr/bin/env bash
# gpu.sh [OUTPUT.json]   What one GPU shows, the parts of most worth first, each within four minutes and all within nine (SECONDS_IN_ALL): the
# tests of the label gpu, speeds beside the Python packages that are installed there, what `plan` foretells of this card, and
# compute-sanitizer over the smallest tests. Prints one line a part and writes every figure, with card, driver and date, to OUTPUT.json
# (gpu.json; after each part, so that a run which is stopped leaves what it has), each part's own to OUTPUT.parts/PART.json, and what the parts
# said to OUTPUT.log. Exit code: 0 only when every part ran and passed;
# 1 when something failed or was not run (the file says which and why); 78 without a GPU.
# Runs in a bundle (scripts/bundle.sh, docs/gpu.md), or in the repository on what `cmake --preset release -DGPUHPC_GPU_TESTS=ON
# -DGPUHPC_BENCH=ON` and the targets gpuhpc, gpu_tests, encode_bench, training_step_bench and cross_encoder_bench built. SECONDS_IN_ALL
# (540): the time it may take. PARTS: a pattern of the parts to run ('test.*', 'encode.*'; all). All of them take longer than SECONDS_IN_ALL;
# docs/gpu.md has the three calls that cover them.
set -u
root=$(dirname "$(dirname "$(realpath "$0")")")
out=$(realpath -m "${1:-gpu.json}")
limit=${SECONDS_IN_ALL:-540} wanted=${PARTS:-.*}
started=$SECONDS
if [ -x "$root/run" ]; then bin=$root/bin models=$root/models; else bin=$root/build/release models=$root/.deps/models; fi
export PATH=$root/bin:$PATH GPUHPC_MODELS=$models
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=${out%.json}.log
parts=${out%.json}.parts
[ "$wanted" != '.*' ] || rm -rf "$parts"  # else those of the calls before stay
mkdir -p "$parts"
cd "$root"  # tests find their fixtures from here
: >"$log"
bad=0
: >"$work/parts"

text() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
gpu_fact() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -1; }
# record NAME STATUS SECONDS REASON FIGURES   STATUS: passed, failed or not run; FIGURES: JSON or nothing.
record() {
  local row; row=$(printf '{"status": "%s", "seconds": %s, "reason": %s, "figures": %s}' "$2" "$3" "$(text "$4")" "${5:-null}")
  [ "$4" = "PARTS is $wanted" ] ||
    printf '{"part": "%s", "card": %s, "driver": %s, "result": %s}\n' "$1" "$(text "$card")" "$(text "$driver")" "$row" >"$parts/$1.json"
  printf '%s"%s": %s' "$([ -s "$work/parts" ] && printf ',\n    ')" "$1" "$row" >>"$work/parts"
  echo "gpu.sh: $1: $2${4:+: $4} ($3 s)"
  [ "$2" = passed ] || bad=1
  write_file "stopped in the middle" false
}
write_file() {  # PROBLEM COMPLETE
  local commit; commit=$(cat "$root/COMMIT" 2>/dev/null || git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
  {
    printf '{\n  "date": "%s",\n  "commit": %s,\n  "command": "bash bench/gpu.sh",\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(text "$commit")"
    printf '  "card": %s,\n  "driver": %s,\n' "$(text "$card")" "$(text "$driver")"
    printf '  "packages": %s,\n  "cores": %s,\n  "seconds": %s,\n  "complete": %s,\n' "$(text "$packages")" "$(nproc)" "$((SECONDS - started))" "$2"
    printf '  "problem": %s,\n  "parts": {\n    %s\n  }\n}\n' "$(text "$1")" "$(cat "$work/parts")"
  } >"$out"
}
# said FIGURES FILE   What a test counted and measured, as JSON, where it has not written figures itself.
said() {
  [ -s "$1" ] && { cat "$1"; return; }
  local line list=
  while read -r line; do list="$list${list:+, }$(text "$line")"; done < <(grep -E "PASSED|from the processor's|last loss|^gpu_job: |^on |^figure: " "$2")
  printf '[%s]' "$list"
}
# part NAME SECONDS FIGURES COMMAND...   Runs COMMAND for at most SECONDS; it may write its figures as JSON to the file FIGURES.
part() {
  local name=$1 seconds=$2 figures=$work/$3 left=$((limit - (SECONDS - started))) begin=$SECONDS rc=0 reason=; shift 3
  [[ $name =~ ^($wanted)$ ]] || { record "$name" "not run" 0 "PARTS is $wanted"; return; }
  if [ "$left" -lt 20 ]; then record "$name" "not run" 0 "no time left of $limit s"; return; fi
  [ "$left" -ge "$seconds" ] || seconds=$left
  timeout -k 5 "$seconds" "$@" >"$work/log" 2>&1 </dev/null || rc=$?
  { echo "== $name"; cat "$work/log"; } >>"$log"
  if [ $rc = 0 ]; then
    record "$name" passed $((SECONDS - begin)) "" "$(said "$figures" "$work/log")"
  else
    reason=$(tr '\r' '\n' <"$work/log" | grep -vE '^ *$' | tail -1 | cut -c1-300)
    [ $rc != 124 ] || reason="stopped after $seconds s; $reason"
    record "$name" failed $((SECONDS - begin)) "exit code $rc: $reason" "$(said "$figures" "$work/log")"
  fi
}
# peers NAME SECONDS PACKAGES FIGURES COMMAND...   The same, where python3 has all PACKAGES.
peers() {
  local name=$1 seconds=$2 needed=$3 lacking=; shift 3
  for package in $needed; do
    python3 -c "import importlib.util as u, sys; sys.exit(u.find_spec('$package') is None)" 2>/dev/null || lacking="$lacking $package"
  done
  if [ -n "$lacking" ]; then record "$name" "not run" 0 "python3 here lacks$lacking"; else part "$name" "$seconds" "$@"; fi
}

card=$(gpu_fact name) driver=$(gpu_fact driver_version)
packages=$(python3 -c '
import importlib.metadata as m
for name in ("torch", "transformers", "sentence-transformers", "tokenizers", "nvidia-nccl-cu13"):
    try: print(name, m.version(name), end="; ")
    except m.PackageNotFoundError: pass' 2>/dev/null || echo "no python3")

if ! "$bin/gpuhpc" doctor --device.kind cuda >"$log" 2>&1; then
  problem=$(grep -vE '^ *$' "$log" | tail -1 | cut -c1-400)
  write_file "the GPU cannot be used: $problem" false
  echo "gpu.sh: nothing was run: $problem" >&2
  exit 78
fi
cat "$log"

gzip -dc "$root/data/debtags-topical/train/corpus.txt.gz" >"$work/texts.tsv"
# room NAME SECONDS   The tests of a room.
room() { part "test.$1" "$2" none "$bin/test_$1_gpu" --gtest_brief=1; }
# job METHOD   The main job by the finished program.
job() {
  part "test.job.$1" 230 none env PROGRAM="$bin/gpuhpc" DATA="$root/data/debtags-topical" MODELS="$models" MPIRUN="$root/scripts/mpirun.sh" \
    bash "$root/tests/pipeline/gpu_job.sh" "$1"
}
# encode SHAPE SECONDS DOCUMENTS
encode() {
  local shape=$1
  peers "encode.$shape" "$2" "sentence_transformers h5py" "encode-$shape.json" bash -c 'python3 "$1/bench/peers/random_model.py" "$2" "$3/$2" --tokenizer "$4/all-MiniLM-L6-v2" &&
    python3 "$1/bench/peers/encode.py" --device cuda --model "$3/$2" --texts "$3/texts.tsv" --documents "$5" --program "$6/encode_bench" --rounds 2 --json "$3/encode-$2.json"' \
    _ "$root" "$shape" "$work" "$models" "$3" "$bin"
  rm -rf "${work:?}/$shape"
}
# step NAME SECONDS OPTIONS...
step() {
  local name=$1 seconds=$2; shift 2
  peers "step.$name" "$seconds" "transformers safetensors tokenizers accelerate" "step-$name.json" python3 "$root/bench/peers/training_step.py" --device cuda \
    --program "$bin/training_step_bench" --tokenizer "$models/all-MiniLM-L6-v2" --texts "$root/data/debtags-topical/train/corpus.txt.gz" --json "$work/step-$name.json" "$@"
}
# Similarities of text pairs: the shapes of the cross-encoders that TaxoClass is given.
pair() {
  peers pair 230 "transformers safetensors" pair.json python3 "$root/bench/peers/cross_encoders.py" --device cuda --program "$bin/cross_encoder_bench" \
    --models deberta-base,roberta-base,deberta-large --pairs 512 --rounds 2 --scratch "$work" --json "$work/pair.json"
}
# sanitizer TOOL SECONDS [PROGRAM FILTER]...   Not where compute-sanitizer is lacking or may not look at the card (containers without the
# right). LibTorch's reserve is off, or all tensors would lie in a few large blocks, whose bounds nobody crosses.
sanitizer() {
  local tool=$1 seconds=$2 name=sanitizer.$1; shift 2
  [[ $name =~ ^($wanted)$ ]] || { record "$name" "not run" 0 "PARTS is $wanted"; return; }
  if ! command -v compute-sanitizer >/dev/null; then record "$name" "not run" 0 "no compute-sanitizer on PATH"; return; fi
  if ! timeout -k 5 60 compute-sanitizer --tool "$tool" --target-processes all "$bin/gpuhpc" doctor --device.kind cuda >"$work/refusal" 2>&1; then
    record "$name" "not run" 0 "refused: $(grep -E '=========' "$work/refusal" | head -1 | cut -c1-300)"
    return
  fi
  part "$name" "$seconds" none env PYTORCH_NO_CUDA_MEMORY_CACHING=1 bash -c 'tool=$1 bin=$2 bad=0; shift 2
    while [ $# -ge 2 ]; do
      compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 "$bin/$1" --gtest_brief=1 --gtest_filter="$2" || bad=$?
      shift 2
    done
    exit $bad' _ "$tool" "$bin" "$@"
}
# Two ranks of one host that drive one GPU: NCCL would refuse them much later, in its own words.
two_ranks() {
  local one=${CUDA_VISIBLE_DEVICES:-0}
  part nccl.two-ranks 60 none env CUDA_VISIBLE_DEVICES="${one%%,*}" bash -c 'rc=0
    said=$("$1/scripts/mpirun.sh" 2 "$2/gpuhpc" doctor --device.kind cuda 2>&1) || rc=$?
    printf "%s\n" "$said"
    sentence=$(grep -o -m 1 "ranks 0 and 1 on .* drive the same GPU.*" <<<"$said") || { echo "exit code $rc, and not a word of two ranks on one GPU"; exit 1; }
    [ $rc = 78 ] || { echo "exit code $rc, wanted 78: $sentence"; exit 1; }
    echo "figure: exit code 78: $sentence"' _ "$root" "$bin"
}
# An input of 12 classes, 128 texts to learn from and 32 to label: documents of the demo joined until most fill the 512 tokens that the
# profile cuts at.
long_texts() {
  local in=$1; mkdir -p "$in/train" "$in/test"
  printf '%s\n' $'0\tsystem' $'1\tmedia' $'2\tadministration' $'3\tnetwork' $'4\tsound' $'5\tvideo' $'6\tbackup' $'7\tmonitoring' $'8\tmail' \
    $'9\tplayer' $'10\teditor' $'11\tweb' >"$in/labels.txt"
  printf '%s\n' $'0\t2' $'0\t3' $'1\t4' $'1\t5' $'2\t6' $'2\t7' $'3\t8' $'3\t11' $'4\t9' $'5\t10' >"$in/label_hierarchy.txt"
  awk -F'\t' -v train="$in/train/corpus.txt" -v test="$in/test/corpus.txt" '{ text = text " " $2; words += split($2, unused, " ") }
    words > 450 { file = n < 128 ? train : test; print "d" n "\t" text >file; text = ""; words = 0; if (++n == 160) exit }' "$work/texts.tsv"
}
# The profile of one A6000 under its memory, few documents and updates, models of the right shapes with random weights.
a6000() {
  [[ a6000 =~ ^($wanted)$ ]] && long_texts "$work/long"
  peers a6000 235 numpy none bash -c 'root=$1 bin=$2 work=$3 tokenizer=$4/all-MiniLM-L6-v2
    model() { python3 "$root/bench/peers/random_model.py" "$1" "$work/models/$1" --tokenizer "$tokenizer" --max-length 512; }
    model bert-large & model deberta-large-mnli && wait $! || exit 1
    "$bin/gpuhpc" run --config "$root/configs/taxoclass-a6000.ini" --input.dir "$work/long" --run.dir "$work/a6000" \
      --model.encoder "$work/models/bert-large" --taxoclass.nli-model "$work/models/deberta-large-mnli" --device.memory-limit 51539607552 \
      --train.epochs 2 --train.warmup .1 --taxoclass.self-training-batches 4 --taxoclass.refresh 2 --decode.expected-leaves 1 2>&1 | tee "$work/a6000.log"
    rc=${PIPESTATUS[0]}
    grep -oE "stage [0-9]+/[0-9]+ [a-z-]+ took .*" "$work/a6000.log" | sed "s/^/figure: /"
    grep -oE "train.micro-batch auto: .*" "$work/a6000.log" | sed "s/^/figure: /"
    [ "$rc" = 0 ] || { grep -vE "^ *$" "$work/a6000.log" | tail -1; exit "$rc"; }' _ "$root" "$bin" "$work" "$models"
  rm -rf "$work/models" "$work/a6000"
}

room train 230
room nn 150
room comm 100
step bert-large 150 --models bert-large --precisions bf16 --full --max-length 512 --batch-size 16 --batches 4
encode minilm 90 7000
pair
sanitizer memcheck 230 test_nn_gpu 'MpnetOnGpu.*:ModernOnGpu.*:MaskedLanguageOnGpu.*:DebertaOnGpu.*:T5OnGpu.*' test_train_gpu 'TrainerOnGpu.ALossScale*'
a6000
two_ranks
job teleclass
job taxoclass
job pair
room infer 90
room pipelines 60
room device 60
step bert-base-ragged 80 --models bert-base --batches 8 --rounds 2
# What `plan` foretells of trainings on this card, beside what the trials take.
part plan.t5 120 none "$bin/gpuhpc" plan --plan.gpu auto --plan.job train-seq2seq --plan.model t5-small --plan.calibrate true
part plan.bert 120 none "$bin/gpuhpc" plan --plan.gpu auto --plan.job pretrain --plan.model bert-base --plan.calibrate true
encode bert-large 90 2000
encode bert-base 80 7000
step minilm-ragged 60 --models minilm --precisions bf16 --batches 16
sanitizer initcheck 120 test_nn_gpu 'Pooling.*'

if [ $bad != 0 ]; then
  write_file "something failed or was not run" false
  echo "gpu.sh: $out: not complete: something failed or was not run" >&2
  exit 1
fi
write_file "" true
echo "gpu.sh: $out: complete"
