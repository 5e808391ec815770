#!/usr/bin/env bash
# levels.sh   runs the unit tests and a whole run of the program once for each instruction set of this processor below its best, which is
# the one of every other run (scripts/test.sh); LibTorch's own kernels are held to the same level. Levels it lacks are named.
set -eu
cd "$(dirname "$0")/.."
build=build/release
# Training in bf16 as no user would: a level without bf16 products trains in fp32, and LibTorch needs minutes for what is seconds elsewhere.
bf16_training='Student.Bf16FollowsTheSameCurve:Student.BilinearHeadLearnsOnTheSameEncoder:MiniLm.FirstTokensAloneGiveTheSameVectorsAndGradients'
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
  filter='*'
  case $isa in generic | avx2 | avx512) filter=-$bf16_training ;; esac
  echo "levels: $isa, tests $filter"
  export GPUHPC_TEST_ISA=$isa ATEN_CPU_CAPABILITY=$torch ONEDNN_MAX_CPU_ISA=$onednn
  GTEST_FILTER=$filter ctest --test-dir $build -L unit --output-on-failure --no-tests=error
  $build/tests/test_pipeline --gtest_brief=1 --gtest_filter=Pipeline.LeavesPredictionsMetricsModelAndReport
done
