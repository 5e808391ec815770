#!/usr/bin/env bash
# One node of eight A6000, one rank a GPU: every rank sees all GPUs of its node and takes the one of its local rank. Not yet run on a GPU.
#   sbatch jobs/slurm/a6000x8.sh [COMMAND] [--input.dir FOLDER --run.dir runs/mine ...]       from the repository's root
#   sbatch jobs/slurm/a6000x8.sh doctor                                                        what the launch and its links are like
#   GPUHPC_CONFIG=configs/cpu.ini sbatch --gpus-per-node=0 jobs/slurm/a6000x8.sh               on nodes without GPUs
# What is given to sbatch wins over these lines; --gpus-per-node=a6000:8 where a partition has several kinds.
#SBATCH --job-name=gpuhpc
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
. jobs/slurm/common.sh || exit 78
launch configs/a6000x8.ini "$@"
