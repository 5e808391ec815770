// barrier FILE   a rank of a launch by srun --mpi=pmix: the last one makes FILE and comes to PMIx's barrier late; the others
// find FILE behind the barrier, or leave with 1. As the barrier at the end of MPI_Init, it collects no data.
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
