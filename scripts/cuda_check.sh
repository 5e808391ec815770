#!/usr/bin/env bash
# cuda_check.sh   Compiles (no more: nothing is linked or run) every source that is different in a build with CUDA, against the headers of the
# CUDA runtime and of NCCL that `setup.sh --cuda-headers` fetches: for machines without a toolkit. All CUDA code here is C++.
set -eu
cd "$(dirname "$0")/.."
bash scripts/setup.sh --cuda-headers
sources=$(grep -rlE 'GPUHPC_WITH_CUDA' src)
others=$(find src -name '*.cu')
[ -z "$others" ] || { echo "cuda_check: $others: kernels need nvcc, which this check does not have" >&2; exit 70; }
folders=
for folder in .deps/torch/include .deps/torch/include/torch/csrc/api/include .deps/cuda-headers/*/include; do folders="$folders -isystem $folder"; done
for source in $sources; do
  # shellcheck disable=SC2086
  ${CXX:-g++} -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Werror -Wno-restrict -DGPUHPC_WITH_CUDA -DSPDLOG_FMT_EXTERNAL -Iinclude $folders "$source"
  echo "cuda_check: $source compiles"
done
