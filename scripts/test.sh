#!/usr/bin/env bash
# test.sh   sets everything up, builds, and runs the unit, mpi and pipeline tests of the release build.
set -eu
cd "$(dirname "$0")/.."
bash scripts/setup.sh
bash scripts/build.sh release
# Two at a time, but those that take both cores; threads that wait leave them to the others.
export OMP_WAIT_POLICY=passive
ctest --test-dir build/release -j 2 -L 'unit|mpi|pipeline' --output-on-failure --no-tests=error
