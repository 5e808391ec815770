#!/usr/bin/env bash
# missing_rank.sh PROGRAM   one of three ranks never starts MPI: the others do not wait for ever.
set -u
export GPUHPC_START_SECONDS=3 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# shellcheck disable=SC2016
output=$(mpirun -np 3 --oversubscribe --bind-to none bash -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 100; exec "$0" doctor' "$1" 2>&1)
code=$?
echo "$output"
grep -q "gpuhpc: MPI did not start within 3 s: a rank of this launch has not come up" <<<"$output" || { echo "FAILED: not said"; exit 1; }
[ "$code" = 79 ] || { echo "FAILED: exit code $code, not 79"; exit 1; }
[ "$SECONDS" -le 20 ] || { echo "FAILED: only after $SECONDS s"; exit 1; }
