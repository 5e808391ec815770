#!/usr/bin/env bash
# fuzz.sh [--planted] [SECONDS]   builds every libFuzzer target (tests/*/*_fuzz.cpp) with ASan and UBSan, runs each from its real seeds
# for SECONDS (60), and prints runs and coverage. Needs what `setup.sh --sanitizers` installs. A finding ends it with exit 70 and the input's path.
# --planted proves that the targets can find something: in a copy of the tree each loses one check, and every loss must be found
# (seconds as a rule, 300 at most).
set -eu
cd "$(dirname "$0")/.."
planted=; [ "${1:-}" = --planted ] && { planted=1; shift; }
seconds=${1:-${planted:+300}}; seconds=${seconds:-60}
targets=$(basename -s .cpp tests/*/*_fuzz.cpp)
declare -A seeds=([options_fuzz]=tests/config/fixtures/options_seeds [safetensors_fuzz]=tests/io/fixtures/safetensors_seeds
  [corpus_fuzz]=tests/data/fixtures/corpus_seeds [taxonomy_fuzz]=tests/labels/fixtures/taxonomy_seeds
  [label_files_fuzz]=tests/eval/fixtures/label_file_seeds [tokenizer_json_fuzz]=tests/text/fixtures/fuzz
  [manifests_fuzz]=tests/app/fixtures/manifest_seeds)

# plant FILE TEXT REPLACEMENT: takes one check out of the copy.
plant() {
  grep -qF -- "$2" "$1" || { echo "fuzz: $1 no longer holds \`$2\`; plant another bug" >&2; exit 70; }
  python3 -c 'import sys; p, a, b = sys.argv[1:]; s = open(p).read(); open(p, "w").write(s.replace(a, b, 1))' "$@"
}
if [ -n "$planted" ]; then
  copy=$PWD/build/planted; mkdir -p "$copy"
  tar -c --exclude=./build --exclude=./runs --exclude=./.deps --exclude=./.git . | tar -x -C "$copy" && ln -sfn "$PWD/.deps" "$copy/.deps"
  cd "$copy"
  plant src/config/options.cpp 'std::stod(value) > option->high_' 'false'
  plant src/text/tokenizer_parts.hpp '!has(key)' 'false'
  plant src/eval/predictions.cpp '!seen.insert(id).second' '!seen.insert(id).second && false'
  plant src/data/corpus.cpp 'id.empty()' 'false'
  plant src/labels/taxonomy.cpp 'std::ssize(order) == size()' 'std::ssize(order) <= size()'
  plant src/io/manifest.cpp '!file.contains("hash")' 'false'
  plant src/io/safetensors.cpp 'placed.end - placed.begin != bytes' 'false'
fi
# shellcheck disable=SC2086
bash scripts/build.sh asan $targets
mkdir -p build/fuzz/findings

round() {
  local target=$1 corpus=build/fuzz/corpus-$1 log=build/fuzz/$1.log found=
  mkdir -p "$corpus"
  # libFuzzer copies what it learns into the first folder; the seeds stay as they are.
  "build/asan/$target" "$corpus" "${seeds[$target]}" -max_total_time="$seconds" -artifact_prefix="build/fuzz/findings/$target-" \
    -print_final_stats=1 -rss_limit_mb=4096 >"$log" 2>&1 || found=1
  if [ -n "$planted" ]; then
    [ -n "$found" ] || { echo "fuzz: $target did not find the planted bug in $seconds s" >&2; return 70; }
    echo "$target: the planted bug was found"
  elif [ -n "$found" ]; then
    tail -30 "$log" >&2
    echo "fuzz: $target found something; the input is in build/fuzz/findings" >&2
    return 70
  else
    echo "$target: $(grep -oE 'stat::number_of_executed_units: *[0-9]+' "$log" | grep -oE '[0-9]+$') runs, $(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)"
  fi
}
# One on each core.
running=0 failed=0
for target in $targets; do
  [ "$running" -lt "$(nproc)" ] || { wait -n || failed=70; running=$((running - 1)); }
  round "$target" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do wait -n || failed=70; running=$((running - 1)); done
exit $failed
