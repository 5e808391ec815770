#!/usr/bin/env bash
# build.sh PRESET [TARGET...]   configures and builds; on failure the end of the log, build/PRESET.log, is shown.
set -eu
cd "$(dirname "$0")/.."
preset=$1; shift
mkdir -p build
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # another copy of the tree finds what this one compiled
export CCACHE_SLOPPINESS=pch_defines,time_macros  # also of the tests that share a precompiled header
start=$SECONDS
if ! { cmake --preset "$preset" && cmake --build "build/$preset" ${1:+--target} "$@"; } >"build/$preset.log" 2>&1; then
  grep -E 'error|FAILED|fatal' -A3 "build/$preset.log" | tail -40 >&2
  echo "build: preset $preset failed; the whole log is build/$preset.log" >&2
  exit 70
fi
echo "build: $preset done in $((SECONDS - start)) s"
