#pragma once
#include <functional>
#include <memory>

#include "gpuhpc/comm/communicator.hpp"

namespace gpuhpc {

// Starts MPI for the life of this object (one per process, made by main) where mpirun or srun
// --mpi=pmix started the process; one that was started alone needs no MPI. A launch whose ranks do
// not find each other within GPUHPC_START_SECONDS (an environment variable; 300) ends with exit
// code 79 and a sentence.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  // Ends MPI once every rank has come here, and returns `code`. Where MPI does not let go within a
  // minute the process ends with that code: all is written by then. The destructor's is 79.
  static int finish(int code);
  // The world: an MPI communicator, or the single one when there is one rank. Collectives run on a
  // thread of the communicator; a rank that dies or hangs ends all others with exit code 79 and a
  // sentence that names it, out of that thread, within options.timeout and a few seconds.
  static std::unique_ptr<Communicator> world(const ParallelOptions& options = {});
  // Ends all ranks at once with this exit code: the last resort between outstanding collectives.
  [[noreturn]] static void abort(int code);
};

// What the environment says about this launch, before MPI is started.

// null where it is not set; std::getenv
using Environment = std::function<const char*(const char* name)>;

// Throws configuration_error when MPI would end the process in its own words, for want of a folder
// for its temporary files; and when this process is one of several tasks of a Slurm step that no
// MPI ties together: each would do the whole work alone, in the same folder. A batch script's own
// processes, `srun -n1` and ranks of mpirun are none of these. Rank 0 warns of an srun over several
// nodes whose ranks may not wait for each other.
void check_launch(const Environment& environment);

}  // namespace gpuhpc
