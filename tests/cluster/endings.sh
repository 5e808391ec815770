#!/usr/bin/env bash
# endings.sh   jobs that do not come to their end: scancel leaves nothing behind and does not start it again; a node that is lost is named.
slurmd_timeout=10
. "$(dirname "$(realpath "$0")")/slurm.sh"
start_slurm 2
make_input "$S/input"
long_job() { submit --nodes=2 --ntasks-per-node=2 "${@:2}" jobs/slurm/a6000x8.sh "${small_run[@]}" --input.dir "$S/input" --run.dir "$1" --train.epochs 100 --train.checkpoint-every 5; }
nobody_left() { for n in 1 2; do ip netns pids "$nodes_tag-$n"; done | xargs -r ps -o comm= -p | grep -q gpuhpc && return 1 || return 0; }

run=$S/cancelled
job=$(long_job "$run") || exit 1
wait_for "$patience" newest_checkpoint "$run"
nobody_left && die "the processes of a running job are not seen"
start=$SECONDS
scancel "$job"
await "$job" CANCELLED
wait_for 30 nobody_left
says "$S/$job.log" "stopped at step .* as asked"
[ "$(state "$job")" = CANCELLED ] || die "a cancelled job is $(state "$job")"
echo "scancel: CANCELLED with a checkpoint, no process left after $((SECONDS - start)) s"

run=$S/lost
job=$(long_job "$run" --no-requeue) || exit 1
wait_for "$patience" newest_checkpoint "$run"
start=$SECONDS
kill -9 "$(cat "$S/slurmd.node2.pid")"
await "$job" NODE_FAIL
says "$S/$job.log" "node2"
grep node2 "$S/$job.log"
echo "node2's daemon killed: NODE_FAIL after $((SECONDS - start)) s"
