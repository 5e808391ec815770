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
  wait_for "$patience" says_restarts "$1" "$2"
  await "$1" PENDING
  says "$S/$1.log" "stopped as asked; the job goes back into the queue"
}
says_restarts() { scontrol -o show job "$1" | grep -q " Restarts=$2 "; }
# A requeued job waits two minutes else; the nodes take no credential of the second in which they dropped it.
at_once() { sleep 3; scontrol update jobid="$1" StartTime=now; }
# Slurm looks for jobs to drive out or to end every half minute, in which a small run would finish: from its next checkpoint
# on, a run's ranks stand still until the signal has come to each of them.
ranks_of() {
  local process
  for process in /proc/[0-9]*; do
    if [ "$(readlink "$process/exe")" = "$program" ] && tr '\0' ' ' <"$process/cmdline" | grep -q -- "--run.dir $1 "; then
      basename "$process"
    fi
  done 2>/dev/null
}
stop_ranks() {  # RUN-FOLDER JOB TIMES   or the signal came before that, and the job is requeued already
  local before
  before=$(newest_checkpoint "$1")
  newer_or_requeued() { says_restarts "$2" "$3" || { newest_checkpoint "$1" && [ "$(newest_checkpoint "$1")" != "$before" ]; }; }
  wait_for "$patience" newer_or_requeued "$@"
  ranks_of "$1" | xargs -r kill -STOP
}
# USR1 or TERM is pending, or has set the rank going already (Slurm sends SIGCONT before SIGTERM).
all_told() {
  local rank
  for rank in $(ranks_of "$1"); do
    [ "$(awk '/^State/ {print $2}' "/proc/$rank/status")" != T ] ||
      [ $((0x$(awk '/^ShdPnd/ {print $2}' "/proc/$rank/status") & 0x4200)) != 0 ] || return 1
  done
}
go_on() {  # RUN-FOLDER
  wait_for "$patience" all_told "$1"
  ranks_of "$1" | xargs -r kill -CONT
}

start=$SECONDS
scripts/mpirun.sh 1 "$program" --config "$GPUHPC_CONFIG" "${arguments[@]}" --run.dir "$S/alone" >"$S/alone.log" 2>&1 || die "the run that is left alone: exit $?"
reference=$(weights "$S/alone")
echo "left alone on one rank: $((SECONDS - start)) s, $(wc -l <"$S/alone/stages/05-training/metrics.jsonl") updates"

run=$S/srun
job=$(launch_job srun "$run") || exit 1
await "$job" RUNNING
stop_ranks "$run" "$job" 1
urgent=$(sbatch --parsable --partition=urgent --nodes=2 --exclusive --output=/dev/null --wrap true) || die "sbatch"
go_on "$run"
requeued "$job" 1
await "$urgent" COMPLETED
at_once "$job"
await "$job" RUNNING
started=$SECONDS
stop_ranks "$run" "$job" 2
scontrol update jobid="$job" TimeLimit=$(((SECONDS - started) / 60 + 3))  # less than the job script's three minutes are left: USR1 comes at the next look
go_on "$run"
requeued "$job" 2
scontrol update jobid="$job" TimeLimit=60
at_once "$job"
await "$job" COMPLETED
[ "$(grep -c "going on after the checkpoint" "$S/$job.log")" -ge 1 ] || die "no start went on from a checkpoint"
[ "$(weights "$run")" = "$reference" ] || die "srun: other weights"
echo "srun: driven out, then USR1 before the limit: requeued twice, the same weights"

run=$S/mpirun
job=$(launch_job mpirun "$run") || exit 1
await "$job" RUNNING
stop_ranks "$run" "$job" 1
scancel --batch --signal=USR1 "$job"  # as --signal=B:USR1 does
go_on "$run"
requeued "$job" 1
at_once "$job"
await "$job" COMPLETED
says "$S/$job.log" "going on after the checkpoint"
[ "$(weights "$run")" = "$reference" ] || die "mpirun: other weights"
echo "mpirun: USR1: requeued, the same weights; $((SECONDS - start)) s in all"
