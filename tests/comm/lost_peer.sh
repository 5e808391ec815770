#!/usr/bin/env bash
# lost_peer.sh PROGRAM WAY LAUNCHER   loses rank 1 of 3 and looks at how the others leave. WAY: killed | frozen | hangs |
# mismatch | at-the-end (in MPI_Finalize); LAUNCHER: aborts (mpirun ends everybody as soon as one process fails) | lets-be (it does not).
set -u
program=$1 way=$2 launcher=$3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
[ "$way" != at-the-end ] || export GPUHPC_START_SECONDS=4  # of the end, too
start=(mpirun -np 3 --oversubscribe --bind-to none --mca btl "${LOST_PEER_BTL:-self,vader}")
if [ "$launcher" = lets-be ]; then
  # shellcheck disable=SC2016
  output=$("${start[@]}" --mca orte_enable_recovery 1 --mca orte_abort_on_non_zero_status 0 \
    bash -c '"$0" "$1"; echo "rank $OMPI_COMM_WORLD_RANK left with $?"' "$program" "$way" 2>&1)
else
  output=$("${start[@]}" "$program" "$way" 2>&1)
fi
code=$?
echo "$output"
echo "mpirun left with $code after $SECONDS s"

expect() { grep -Eq "$1" <<<"$output" || { echo "FAILED: no line has: $1"; exit 1; }; }
host=$(hostname)
case $way in
  killed | frozen) sentence="waited 2 s in all_reduce number 3 \(777 float32, sum\) for rank 1 on $host, which does not answer" ;;
  hangs) sentence="waited 2 s in all_reduce number 3 \(777 float32, sum\) for rank 1 on $host, which is alive but has not entered it" ;;
  at-the-end) sentence="MPI did not end within 4 s of the last rank's work" ;;
  mismatch) sentence="rank 0 on $host calls all_reduce number 3 \(777 float32, sum\) but rank 1 on $host calls broadcast number 3 \(100000 float32 from rank 0\)" ;;
esac
if grep -q "still here" <<<"$output"; then echo "FAILED: a rank went on"; exit 1; fi
left=79
[ "$way" != at-the-end ] || left=75
if [ "$launcher" = lets-be ]; then
  expect "$sentence"
  expect "rank 0 left with $left"
  expect "rank 2 left with $left"
elif [ "$way" = killed ]; then  # the launcher is faster
  expect "process rank 1 .* exited on signal 9"
  [ "$code" -ne 0 ] || { echo "FAILED: mpirun reports no error"; exit 1; }
else
  expect "$sentence"
  [ "$code" -eq "$left" ] || { echo "FAILED: exit code $code, not $left"; exit 1; }
fi
