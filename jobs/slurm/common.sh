# common.sh   sourced by the job scripts of this folder, which are submitted from the repository's root.
#   GPUHPC_CONFIG=FILE      another profile than the script's own, such as configs/cpu.ini
#   GPUHPC_LAUNCHER=mpirun  where Slurm has no PMIx (srun --mpi=list shows it); the default is srun
#   GPUHPC=PROGRAM          the default is build/release/gpuhpc
# Site settings, where the defaults are wrong:
#   export NCCL_SOCKET_IFNAME=ib0 OMPI_MCA_btl_tcp_if_include=ib0   # the network between nodes
#   export NCCL_IB_HCA=mlx5_0                                        # one of several InfiniBand cards
program=${GPUHPC:-build/release/gpuhpc}
srun_options=()
# A node that is cut off ends mpirun after half a minute; without these it waits for minutes, its ranks long gone.
mpirun_options=(--mca oob_tcp_keepalive_time 20 --mca oob_tcp_keepalive_intvl 5 --mca oob_tcp_keepalive_probes 3)

# launch PROFILE [COMMAND] [--section.option VALUE ...]   one rank a task. USR1, which Slurm sends this shell before the time is up, and the
# SIGTERM of a more urgent job go on to the ranks: they save and leave with 75, and the job goes back into the queue. Rank 0 speaks in the
# job's log, every line with its rank before it; all ranks write RUN/log/rank-NNNNN.log.
launch() {
  local profile=${GPUHPC_CONFIG:-$1} start signalled='' told='' code pid=''; shift
  trap 'signalled=1 told=1; [ -z "$pid" ] || kill -USR1 "$pid"' USR1 TERM
  case ${GPUHPC_LAUNCHER:-srun} in
    srun)
      # By default Slurm's PMIx does not wait for other nodes where a job has fewer than TreeWidth (16 or 50): MPI_Init lets ranks go whose first
      # message ends a rank that is not ready in a segmentation fault.
      export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
      [ -z "${SLURM_CPUS_PER_TASK:-}" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
      start=(srun --mpi=pmix --kill-on-bad-exit=1 --label "${srun_options[@]}") ;;
    mpirun)
      export SLURM_CPU_BIND=none  # of mpirun's daemons, whose cores the ranks inherit
      start=(mpirun --bind-to none --tag-output "${mpirun_options[@]}") ;;
    *) echo "GPUHPC_LAUNCHER is $GPUHPC_LAUNCHER; it may be srun or mpirun" >&2; exit 78 ;;
  esac
  "${start[@]}" "$program" "$@" --config "$profile" &
  pid=$!
  [ -z "$signalled" ] || kill -USR1 "$pid"
  while :; do  # a signal ends `wait` before its time
    signalled='' code=0
    wait "$pid" || code=$?
    [ -n "$signalled" ] || break
  done
  # 138: USR1 came before the ranks could take it, and nothing is lost; 143 where srun then ended the others. A job that scancel ends is no
  # longer RUNNING.
  if { [ "$code" = 75 ] || [ "$code" = 138 ] || { [ "$code" = 143 ] && [ -n "$told" ]; }; } && [ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" = RUNNING ]; then
    echo "stopped as asked; the job goes back into the queue" >&2
    scontrol requeue "$SLURM_JOB_ID"
  fi
  exit "$code"
}
