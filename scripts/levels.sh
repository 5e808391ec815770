#!/usr/bin/env bash
# levels.sh   runs the unit tests of the rooms that compute and a whole run of the program, compared with the independent reference, once for each
# instruction set of this processor below its best, which is the one of every other run (scripts/test.sh); LibTorch's own kernels are held to the
# same level. Levels it lacks are named.
set -eu
cd "$(dirname "$0")/.."
build=build/release
best=amx
refusal=$($build/gpuhpc run --dry-run --device.isa amx --device.kind cpu 2>&1 >/dev/null) || best=${refusal##*its best level is }
for level in generic:default:SSE41 avx2:avx2:AVX2 avx512:avx512:AVX512_CORE avx512-bf16:avx512:AVX512_CORE_BF16 amx:avx512:AVX512_CORE_AMX; do
  IFS=: read -r isa torch onednn <<<"$level"
  if ! refusal=$($build/gpuhpc run --dry-run --device.isa "$isa" --device.kind cpu 2>&1 >/dev/null); then
    case $refusal in
      *"this processor has no $isa;"*) echo "levels: $isa NOT RUN: ${refusal#gpuhpc: }"; continue ;;
      *) echo "$refusal" >&2; exit 70 ;;
    esac
  fi
  [ "$isa" != "$best" ] || { echo "levels: $isa is the best here: scripts/test.sh runs it"; continue; }
  echo "levels: $isa"
  export GPUHPC_TEST_ISA=$isa ATEN_CPU_CAPABILITY=$torch ONEDNN_MAX_CPU_ISA=$onednn
  # The tests of Levels/ force every level by themselves.
  GTEST_FILTER=-Levels/* OMP_WAIT_POLICY=passive ctest --test-dir $build -j 2 -L unit -E '^(base|config|device|comm|io|text|data|report|plan|app|layout)$' --output-on-failure --no-tests=error
  $build/tests/test_pipeline --gtest_brief=1 --gtest_filter=Presets/Reference.RunAndPredictGiveItsLabelsAndScores/recommended
done
