#pragma once
// What the environment says about this launch, before MPI is started.
#include <functional>

namespace gpuhpc {

using Environment =
    std::function<const char*(const char* name)>;  // null where it is not set; std::getenv

// Throws configuration_error when this process is one of several tasks of a Slurm step that no MPI
// ties together: each would do the whole work alone, in the same folder. A batch script's own
// processes, `srun -n1` and ranks of mpirun are none of these.
void check_launch(const Environment& environment);

}  // namespace gpuhpc
