// Which rank this process is, as the variables of its launcher tell.
#pragma once

#include <functional>
#include <string>

namespace strobe::comm {

struct World {
  int rank = 0;
  int size = 1;        // 0: the launcher does not tell, MPI will
  int local_rank = 0;  // among those on this host
  int local_size = 1;  // 0: not told
  std::string host;
  std::string launcher;        // "Open MPI", "Slurm", ...; empty: this process was started alone
  std::string master_address;  // where rank 0 listens, if the variables say so
  int master_port = 0;
};

using Variable = std::function<const char*(const char* name)>;

// Knows Open MPI's mpirun, Slurm's srun, RANK/WORLD_SIZE (torchrun's names) and PMIx alone, in this order. Throws
// Error(invalid_argument) where a variable is no number or rank and size do not fit.
World world_from(const Variable& variable);
World this_world();  // from the environment

}  // namespace strobe::comm
