#!/usr/bin/env bash
# fuzz.sh [SECONDS]   builds every libFuzzer target (tests/*/*_fuzz.cpp) with ASan and UBSan, runs each from its real seeds for
# SECONDS (60), and prints runs and coverage. Needs clang and libclang-rt-14-dev. A finding ends it with exit 70 and the input's path.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
targets=$(basename -s .cpp tests/*/*_fuzz.cpp)
# shellcheck disable=SC2086
bash scripts/build.sh fuzz $targets
declare -A seeds=([options_fuzz]=tests/config/fixtures/options_seeds [safetensors_fuzz]=tests/io/fixtures/safetensors_seeds
  [corpus_fuzz]=tests/data/fixtures/corpus_seeds [taxonomy_fuzz]=tests/labels/fixtures/taxonomy_seeds
  [label_files_fuzz]=tests/eval/fixtures/label_file_seeds [tokenizer_json_fuzz]=tests/text/fixtures/fuzz)
mkdir -p build/fuzz/findings
for target in $targets; do
  corpus=build/fuzz/corpus-$target; mkdir -p "$corpus"
  log=build/fuzz/$target.log
  # libFuzzer copies what it learns into the first folder; the seeds stay as they are.
  if ! "build/fuzz/$target" "$corpus" "${seeds[$target]}" -max_total_time="$seconds" -artifact_prefix="build/fuzz/findings/$target-" \
      -print_final_stats=1 -rss_limit_mb=4096 >"$log" 2>&1; then
    tail -30 "$log" >&2
    echo "fuzz: $target found something; the input is in build/fuzz/findings" >&2
    exit 70
  fi
  echo "$target: $(grep -oE 'stat::number_of_executed_units: *[0-9]+' "$log" | grep -oE '[0-9]+$') runs, $(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)"
done
