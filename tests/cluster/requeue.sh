#!/usr/bin/env bash
# requeue.sh   jobs that are told to stop save, leave with 75, go back into the queue and end with the weights of a run that was left alone:
# driven out by a more urgent job (SIGTERM), then USR1 before the time limit, under srun; USR1 under mpirun.
. "$(dirname "$(realpath "$0")")/slurm.sh"
start_slurm 2
make_input "$S/input"
arguments=("${small_run[@]}" --input.dir "$S/input" --pipeline.to training --train.epochs 5 --train.checkpoint-every 5)
launch_job() {  # LAUNCHER RUN-FOLDER SBATCH-OPTIONS...
  local launcher=$1 run=$2; shift 2
  GPUHPC_LAUNCHER=$launcher submit --nodes=2 --ntasks-per-node=2 "$@" jobs/slurm/a6000x8.sh "${arguments[@]}" --run.dir "$run"
}
requeued() {  # JOB TIMES
  wait_for 120 says_restarts "$1" "$2"
  await "$1" 60 PENDING
  says "$S/$1.log" "stopped as asked; the job goes back into the queue"
}
says_restarts() { scontrol -o show job "$1" | grep -q " Restarts=$2 "; }
# A requeued job waits two minutes else; the nodes take no credential of the second in which they dropped it.
at_once() { sleep 3; scontrol update jobid="$1" StartTime=now; }
trained() { newest_checkpoint "$1"; }

start=$SECONDS
scripts/mpirun.sh 1 "$program" --config "$GPUHPC_CONFIG" "${arguments[@]}" --run.dir "$S/alone" >"$S/alone.log" 2>&1 || die "the run that is left alone: exit $?"
reference=$(weights "$S/alone")
echo "left alone on one rank: $((SECONDS - start)) s, $(wc -l <"$S/alone/stages/05-training/metrics.jsonl") updates"

run=$S/srun
job=$(launch_job srun "$run") || exit 1
await "$job" 60 RUNNING
wait_for 120 trained "$run"
urgent=$(sbatch --parsable --partition=urgent --nodes=2 --exclusive --output=/dev/null --wrap true) || die "sbatch"
requeued "$job" 1
await "$urgent" 60 COMPLETED
scontrol update jobid="$job" TimeLimit=1  # USR1 comes at once with three minutes before the end of one
at_once "$job"
await "$job" 60 RUNNING
requeued "$job" 2
scontrol update jobid="$job" TimeLimit=60
at_once "$job"
await "$job" 180 COMPLETED
[ "$(grep -c "going on after the checkpoint" "$S/$job.log")" -ge 1 ] || die "no start went on from a checkpoint"
[ "$(weights "$run")" = "$reference" ] || die "srun: other weights"
echo "srun: driven out, then USR1 before the limit: requeued twice, the same weights"

run=$S/mpirun
job=$(launch_job mpirun "$run") || exit 1
await "$job" 60 RUNNING
wait_for 120 trained "$run"
scancel --batch --signal=USR1 "$job"  # as --signal=B:USR1 does
requeued "$job" 1
at_once "$job"
await "$job" 180 COMPLETED
says "$S/$job.log" "going on after the checkpoint"
[ "$(weights "$run")" = "$reference" ] || die "mpirun: other weights"
echo "mpirun: USR1: requeued, the same weights; $((SECONDS - start)) s in all"
