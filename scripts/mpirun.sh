#!/usr/bin/env bash
# mpirun.sh RANKS PROGRAM [ARGS...]   runs PROGRAM on RANKS ranks of this machine, one thread each, also as root.
set -eu
ranks=$1; shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# Open MPI 4 removes the folder of all its launches when it is empty, and then another mpirun, which begins just now,
# fails (1 of 300 where four always ran): something in it keeps it.
mkdir -p "${TMPDIR:-/tmp}/ompi.$(uname -n).$(id -u)/kept"
exec mpirun -np "$ranks" --oversubscribe --bind-to none --mca btl self,vader "$@"
