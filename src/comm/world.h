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
  int started = 0;     // ranks of the job, as `strobe launch` says; 0: started otherwise
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

// Ranks of a host take its GPUs in turns: the one of this rank, and the ranks that have the same, with this one.
int gpu_of(const World& world, int gpus);
int ranks_on_gpu_of(const World& world, int gpus);

}  // namespace strobe::comm
