#!/usr/bin/env bash
# launches.sh   right and wrong launches under Slurm: the doctor's findings, whether ranks wait for each other, and what a launch without MPI is told.
. "$(dirname "$(realpath "$0")")/slurm.sh"
start_slurm 2

for launcher in srun mpirun; do
  job=$(GPUHPC_LAUNCHER=$launcher submit --nodes=2 --ntasks-per-node=2 jobs/slurm/multi-node.sh doctor) || exit 1
  await "$job" COMPLETED
  log=$S/$job.log
  says "$log" "4 ranks on 2 hosts"
  says "$log" "[ :]1 +node1 +1 .* cpu"
  says "$log" "[ :]2 +node2 +0 .* cpu"
  says "$log" "64 MiB .* [GM]B/s"
  says "$log" "every element of every answer is right"
  ! grep -q SLURM_PMIX_FENCE "$log" || die "a job script's launch is warned"
  echo "doctor under $launcher: $(grep -c 'KiB\|MiB' "$log") sizes right"
  [ "$launcher" = mpirun ] || cat "$log"
done

# MPI_Init ends with a barrier of PMIx that collects no data; it has to wait for the other nodes, too. The last rank makes a file and comes late: the others
# find the file behind the barrier.
cat >"$S/barrier.c" <<'C'
#include <fcntl.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  pmix_proc_t me;
  if (argc < 2 || PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 2;
  if (me.rank + 1 == (unsigned)atoi(getenv("SLURM_STEP_NUM_TASKS"))) {
    sleep(3);
    close(open(argv[1], O_CREAT | O_WRONLY, 0644));
  }
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  if (PMIx_Fence(&all, 1, NULL, 0) != PMIX_SUCCESS) return 2;
  const int waited = access(argv[1], F_OK) == 0;
  printf("rank %u %s\n", me.rank, waited ? "waited" : "did not wait");
  PMIx_Finalize(NULL, 0);
  return !waited;
}
C
cc -Wall -I"/usr/lib/$(cc -print-multiarch)/pmix2/include" "$S/barrier.c" -lpmix -o "$S/barrier" || die "barrier.c does not compile"
job=$(GPUHPC=$S/barrier submit --nodes=2 --ntasks-per-node=2 jobs/slurm/multi-node.sh "$S/late") || exit 1
await "$job" COMPLETED
[ "$(grep -c "rank [0-3] waited" "$S/$job.log")" = 4 ] || die "not every rank waited for the others"

job=$(submit --gpus-per-node=0 jobs/slurm/a6000x1.sh doctor) || exit 1
await "$job" COMPLETED
scontrol -o show job "$job" | grep -q "TresPerNode=gres:gpu:0" || die "--gpus-per-node=0 still asks for GPUs"
says "$S/$job.log" "1 rank on 1 host"

job=$(submit --nodes=2 --ntasks-per-node=2 --array=1,2,4 --output="$S/part-%a.log" jobs/slurm/scaling.sh doctor) || exit 1
queue_empties
says "$S/part-1.log" "2 ranks on 1 host"
says "$S/part-2.log" "4 ranks on 2 hosts"
says "$S/part-4.log" "part 4 of the array needs 4 nodes and the job has 2"
echo "scaling: a part for each number of nodes"

# Not every process of a job with several tasks is a wrong launch.
job=$(submit --nodes=2 --ntasks-per-node=2 --wrap "'$program' doctor --device.kind cpu && srun -n1 -N1 '$program' doctor --device.kind cpu") || exit 1
await "$job" COMPLETED
[ "$(grep -c "1 rank on 1 host" "$S/$job.log")" = 2 ] || die "a batch script's own process, or srun -n1, was refused"

start=$SECONDS
srun --nodes=2 --ntasks=4 "$program" doctor >"$S/wrong.log" 2>&1
code=$?
took=$((SECONDS - start))
[ "$code" = 78 ] || die "four tasks without MPI: exit $code, not 78"
[ "$took" -le 10 ] || die "four tasks without MPI were refused only after $took s"
says "$S/wrong.log" "srun started 4 tasks without MPI.*srun --mpi=pmix"
[ "$(grep -c "^gpuhpc: " "$S/wrong.log")" = 1 ] || die "not said once"
echo "four tasks without MPI: exit 78 after $took s"
