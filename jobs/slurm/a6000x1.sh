#!/usr/bin/env bash
# One A6000. Not yet run on a GPU. From the repository's root:
#   sbatch jobs/slurm/a6000x1.sh [COMMAND] [--input.dir FOLDER --run.dir runs/mine ...]
#SBATCH --job-name=gpuhpc
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=1
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
. jobs/slurm/common.sh || exit 78
launch configs/a6000x1.ini "$@"
