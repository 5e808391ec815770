# slurm.sh   sourced by the tests of this folder: a real Slurm over "nodes" of this machine (scripts/nodes.sh), each with 64 cores and eight
# GPUs that are only files; jobs of the partition `urgent` drive those of `all` out. It is torn down when the script ends, whatever happens. A test that cannot run here fails.
# $S is a scratch folder.
#   start_slurm NODES      sbatch, srun, scontrol, ... are this cluster's from then on
#   submit ARGUMENTS...    of sbatch; prints the job's number; its log is $S/JOB.log
#   state JOB              RUNNING, PENDING, COMPLETED, ...
#   await JOB STATE...     until the job is in one of them
#   queue_empties          waits until no job runs or waits any more
#   make_input FOLDER      300 training and 100 test documents of the demo
# PROGRAM and MODELS come from CTest.
set -u
cd "$(dirname "$(realpath "$0")")/../.."
program=$(realpath "${PROGRAM:-build/release/gpuhpc}") models=$(realpath "${MODELS:-.deps/models}")
S=

die() {
  echo "FAILED: $*"
  for log in "$S"/*.log; do [ ! -e "$log" ] || { echo "== ${log##*/}"; tail -40 "$log"; }; done
  exit 1
}
[ "$(id -u)" = 0 ] || die "the cluster tests make network namespaces and start Slurm: run them as root"
for tool in slurmctld slurmd srun munged ip mpirun; do
  command -v "$tool" >/dev/null || [ -x "/usr/sbin/$tool" ] || die "$tool is not installed: bash scripts/setup.sh --cluster"
done
PATH=$PATH:/usr/sbin:/sbin
[ -x "$program" ] || die "$program is not there: bash scripts/build.sh release gpuhpc"

kill_launcher() {  # a function's process in the background, and the mpirun that it waits for
  # shellcheck disable=SC2046
  kill -9 $(pgrep -P "$1") "$1" 2>/dev/null
  wait "$1" 2>/dev/null
}
tear_down() {
  local launcher file
  for launcher in $(jobs -p); do kill_launcher "$launcher"; done
  for file in "$S"/*.pid; do [ ! -s "$file" ] || kill -9 "$(cat "$file")" 2>/dev/null; done
  remove_nodes  # and all processes on them
  rm -rf "$S"
}
S=$(mktemp -d "${TMPDIR:-/tmp}/gpuhpc-cluster-XXXXXX")
. scripts/nodes.sh
trap tear_down EXIT
trap 'exit 1' INT TERM

write_configuration() {
  local n cpus=64 host
  host=$(hostname)
  cat >"$S/slurm.conf" <<CONF
ClusterName=gpuhpc
SlurmctldHost=$host($nodes_net.254)
SlurmctldPort=$((20000 + $$ % 10000))
AuthType=auth/munge
AuthInfo=socket=$S/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile=$S/slurmctld.pid
SlurmdPidFile=$S/slurmd.%n.pid
SlurmctldLogFile=$S/slurmctld.log
SlurmdLogFile=$S/slurmd.%n.log
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/spool/%n
TmpFS=$S/tmp/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
SlurmdTimeout=${slurmd_timeout:-60}
CONF
  for n in $(seq "$1"); do
    echo "NodeName=node$n NodeHostname=node$n NodeAddr=$nodes_net.$n CPUs=$cpus RealMemory=100000 Gres=gpu:a6000:8" >>"$S/slurm.conf"
    mkdir -p "$S/spool/node$n" "$S/tmp/node$n"
  done
  cat >>"$S/slurm.conf" <<CONF
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes=ALL Default=YES PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL PriorityTier=2
CONF
  for n in 0 1 2 3 4 5 6 7; do mknod -m 666 "$S/gpu$n" c 1 3; done
  echo "NodeName=node[1-$1] Name=gpu Type=a6000 File=$S/gpu[0-7]" >"$S/gres.conf"
  echo "CgroupPlugin=cgroup/v1" >"$S/cgroup.conf"
}

start_slurmd() { on_node "$1" slurmd -N "node$1" -f "$S/slurm.conf" || die "slurmd of node$1 does not start"; }

start_slurm() {
  local n
  chmod 755 "$S"
  mkdir "$S/state"
  make_nodes "$1" - || die "network namespaces cannot be made here"
  write_configuration "$1"
  export SLURM_CONF=$S/slurm.conf OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # Many ranks on few cores.
  export OMP_WAIT_POLICY=passive OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_pml=ob1
  (umask 077; head -c 1024 /dev/urandom >"$S/munge.key")
  munged --key-file="$S/munge.key" --socket="$S/munge.socket" --pid-file="$S/munged.pid" --log-file="$S/munged.log" --seed-file="$S/munge.seed" ||
    die "munged does not start"
  slurmctld -c -f "$SLURM_CONF" || die "slurmctld does not start"
  for n in $(seq "$1"); do start_slurmd "$n"; done
  for n in $(seq 60); do
    [ "$(sinfo -h -N -t idle -o %n | sort -u | wc -l)" != "$1" ] || return 0
    sleep .5
  done
  sinfo -N -l
  die "the nodes do not become idle"
}

submit() { sbatch --parsable --output="$S/%j.log" "$@" || die "sbatch $*"; }
state() { scontrol -o show job "$1" | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }
exit_code() { scontrol -o show job "$1" | grep -o ' ExitCode=[0-9]*' | cut -d= -f2; }
# Seconds for what takes as long as its work: only what hangs needs them all. Where the wait itself is promised (a lost link is noticed, nobody is left)
# a test gives its own.
patience=900
await() {
  local job=$1 end=$((SECONDS + patience)) now; shift
  while :; do
    now=$(state "$job")
    for wanted in "$@"; do [ "$now" != "$wanted" ] || return 0; done
    case $now in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) die "job $job is $now and should be $*" ;; esac
    [ "$SECONDS" -lt "$end" ] || die "job $job is $now after $patience s and should be $*"
    sleep .3
  done
}
wait_for() {  # SECONDS COMMAND...   until it succeeds
  local end=$((SECONDS + $1)) seconds=$1; shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || die "not in $seconds s: $*"
    sleep .3
  done
}
queue_empties() { wait_for "$patience" queue_is_empty; }
queue_is_empty() { [ -z "$(squeue -h)" ]; }
says() { grep -Eq "$2" "$1" || die "no line of ${1##*/} has: $2"; }

make_input() {
  local data=data/debtags-topical
  mkdir -p "$1/train" "$1/test"
  cp "$data"/label*.txt "$1"
  gzip -dc "$data/train/corpus.txt.gz" | sed -n 1,300p >"$1/train/corpus.txt"
  gzip -dc "$data/test/corpus.txt.gz" | sed -n 1,100p >"$1/test/corpus.txt"
  gzip -dc "$data/test/doc2labels.txt.gz" | sed -n 1,100p >"$1/test/doc2labels.txt"
}
# What every run of these tests is given: small enough for many ranks on two cores; four micro-batches in every batch of the 300 documents,
# so that one rank and four give the same weights.
small_run=(--pipeline.adapt none --train.batch 20 --train.micro-batch 5 --device.threads 1 --train.precision fp32 --train.layers 1 --train.max-length 32 --eval.bootstrap-samples 50 --model.encoder "$models/all-MiniLM-L6-v2")
export GPUHPC=$program GPUHPC_CONFIG=configs/cpu.ini
weights() { sha256sum "$1/stages/05-training/model/model.safetensors" | cut -d' ' -f1; }
newest_checkpoint() { find "$1/checkpoints/training" -name manifest.json 2>/dev/null | sort | tail -1 | grep .; }
