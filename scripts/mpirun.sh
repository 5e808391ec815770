#!/usr/bin/env bash
# mpirun.sh RANKS PROGRAM [ARGS...]   runs PROGRAM on RANKS ranks of this machine, one thread each, also as root.
set -eu
ranks=$1; shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=$(dirname "$(realpath "$0")")/../tests/tsan.supp}
exec mpirun -np "$ranks" --oversubscribe --bind-to none --mca btl self,vader "$@"
