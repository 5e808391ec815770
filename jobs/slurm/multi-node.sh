#!/usr/bin/env bash
# Four nodes of eight A6000; --nodes=N given to sbatch changes that. Not yet run on a GPU. From the repository's root:
#   sbatch --nodes=2 jobs/slurm/multi-node.sh [COMMAND] [--input.dir FOLDER --run.dir runs/mine ...]
# The run folder lies where all nodes see it.
#SBATCH --job-name=gpuhpc
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
. jobs/slurm/common.sh || exit 78
launch configs/multi-node.ini "$@"
