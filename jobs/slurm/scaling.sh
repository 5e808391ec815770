#!/usr/bin/env bash
# The same run on 1, 2, 4 and 8 nodes, one after the other: the array's numbers are the node counts. Not yet run on a GPU.
#   sbatch jobs/slurm/scaling.sh [--input.dir FOLDER ...]                   from the repository's root
#   sbatch --nodes=2 --array=1,2%1 jobs/slurm/scaling.sh                    smaller; every part of the array holds --nodes nodes
#   GPUHPC_BATCH_A_NODE=128 sbatch jobs/slurm/scaling.sh                    weak scaling: the batch grows with the nodes; else it stays the profile's
#   bash bench/scaling.sh --collect scaling-JOB runs/scaling-JOB-*          one table of what came out, and a plot; grep took .../log/rank-00000.log: all phases
#SBATCH --job-name=gpuhpc-scaling
#SBATCH --array=1,2,4,8%1
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=8
#SBATCH --time=4:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A-%a.log
. jobs/slurm/common.sh || exit 78
nodes=$SLURM_ARRAY_TASK_ID ranks=$((SLURM_ARRAY_TASK_ID * SLURM_NTASKS_PER_NODE))
if [ "$nodes" -gt "$SLURM_NNODES" ]; then
  echo "part $nodes of the array needs $nodes nodes and the job has $SLURM_NNODES; give sbatch --nodes=$nodes or a smaller --array" >&2
  exit 78
fi
srun_options=(--nodes="$nodes" --ntasks="$ranks") mpirun_options+=(-np "$ranks")
[ -z "${GPUHPC_BATCH_A_NODE:-}" ] || set -- "$@" --train.batch "$((GPUHPC_BATCH_A_NODE * nodes))"
launch configs/scaling.ini "$@" --run.dir "runs/scaling-$SLURM_ARRAY_JOB_ID-$nodes"
