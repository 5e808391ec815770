#include "gpuhpc/comm/launch.hpp"

#include <cstdlib>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void check_launch(const Environment& environment) {
  // srun tells its tasks how many they are. SLURM_NTASKS would not do: a batch script's shell has
  // it, too.
  const char* tasks = environment("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || std::atoi(tasks) < 2) return;
  // srun --mpi=pmix, and mpirun, whose daemons srun has started one a node.
  if (environment("PMIX_RANK") != nullptr || environment("OMPI_COMM_WORLD_SIZE") != nullptr) return;
  throw configuration_error(
      "srun started {} tasks without MPI, and each would do the whole work alone; start them with "
      "srun --mpi=pmix, with mpirun "
      "inside the allocation, or one alone with srun -n1",
      tasks);
}

}  // namespace gpuhpc
