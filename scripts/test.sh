#!/usr/bin/env bash
# test.sh   sets everything up, builds, and runs the unit, mpi and pipeline tests of the release build.
set -eu
cd "$(dirname "$0")/.."
bash scripts/setup.sh
bash scripts/build.sh release
ctest --test-dir build/release -L 'unit|mpi|pipeline' --output-on-failure --no-tests=error
