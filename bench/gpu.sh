#!/usr/bin/env bash
# gpu.sh [OUTPUT.json]   What one GPU shows within nine minutes: the tests of the label gpu, then speeds beside the Python packages that are
# installed there. Prints one line a part and writes every figure, with card, driver and date, to OUTPUT.json (gpu.json; after each part, so
# that a run which is stopped leaves what it has) and what the parts said to OUTPUT.log. Exit code: 0 only when every part ran and passed;
# 1 when something failed or was not run (the file says which and why); 78 without a GPU.
# Runs in a bundle (scripts/bundle.sh, docs/gpu.md), or in the repository on what `cmake --preset release -DGPUHPC_GPU_TESTS=ON
# -DGPUHPC_BENCH=ON` and the targets gpuhpc, gpu_tests, encode_bench and training_step_bench built. SECONDS_IN_ALL (540): the time it may
# take. PARTS: a pattern of the parts to run ('test.*', 'encode.*'; all).
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
: >"$log"
bad=0
: >"$work/parts"

text() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
gpu_fact() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -1; }
# record NAME STATUS SECONDS REASON FIGURES   STATUS: passed, failed or not run; FIGURES: JSON or nothing.
record() {
  printf '%s"%s": {"status": "%s", "seconds": %s, "reason": %s, "figures": %s}' "$([ -s "$work/parts" ] && printf ',\n    ')" "$1" "$2" "$3" "$(text "$4")" "${5:-null}" >>"$work/parts"
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
  while read -r line; do list="$list${list:+, }$(text "$line")"; done < <(grep -E "PASSED|from the processor's|last loss|^gpu_job: |^on " "$2")
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

for room in comm device nn infer train; do part "test.$room" 90 none "$bin/test_${room}_gpu" --gtest_brief=1; done
part test.job 150 none env PROGRAM="$bin/gpuhpc" DATA="$root/data/debtags-topical" MODELS="$models" bash "$root/tests/pipeline/gpu_job.sh"

gzip -dc "$root/data/debtags-topical/train/corpus.txt.gz" >"$work/texts.tsv"
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
encode minilm 80 7000
step bert-large-512 120 --models bert-large --precisions bf16 --full --max-length 512 --batch-size 16 --batches 4
encode bert-large 90 2000
encode bert-base 80 7000
step bert-base-ragged 80 --models bert-base --batches 8 --rounds 2
step minilm-ragged 60 --models minilm --precisions bf16 --batches 16

if [ $bad != 0 ]; then
  write_file "something failed or was not run" false
  echo "gpu.sh: $out: not complete: something failed or was not run" >&2
  exit 1
fi
write_file "" true
echo "gpu.sh: $out: complete"
