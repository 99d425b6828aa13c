// This process's rank, size and rendezvous address, from the environment variables of its launcher. Communicator and
// `strobe launch` use it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace strobe::comm {

inline constexpr const char* kTokenVariable = "STROBE_TOKEN";          // the job's secret; `strobe launch` sets it
inline constexpr const char* kListenerVariable = "STROBE_LISTENER";    // descriptor of rank 0's listening socket
inline constexpr const char* kInterfaceVariable = "STROBE_INTERFACE";  // see World::interface
inline constexpr const char* kTorchrun = "RANK and WORLD_SIZE";  // value of World::launcher with torchrun's variables
inline constexpr std::size_t kShortestToken = 16, kLongestToken = 1024;  // characters

struct World {
  int rank = 0;
  int size = 1;        // 0: unknown until MPI has started
  int local_rank = 0;  // index of this rank among those of its host
  int local_size = 1;  // 0: unknown
  int started = 0;     // ranks that `strobe launch` has started; 0: another launcher
  std::string host;
  std::string launcher;        // "Open MPI", "Slurm", ...; empty: no job
  std::string master_address;  // MASTER_ADDR; empty: not set
  int master_port = 0;
  int master_listener = -1;  // descriptor that listens on master_port, inherited from `strobe launch`; -1: none
  std::string token;         // secret shared by the ranks of a job; empty: not set
  std::string interface;     // name or address of rank 0's interface; empty: loopback on one host, otherwise all

  std::optional<bool> one_host;  // true: all ranks share one loopback interface; set by engine mpi

  bool is_on_one_host() const { return one_host.value_or(local_size > 0 && local_size == size); }
};

using Variable = std::function<const char*(const char* name)>;

// Recognises, in this order, Open MPI's mpirun, Slurm's srun, RANK/WORLD_SIZE (torchrun's names, for engine nccl only)
// and PMIx. Without these variables the world has one rank. Throws Error(invalid_argument) if a variable is not a
// number or the rank is not below the number of ranks. Also throws if the token is too short or too long.
World world_from(const Variable& variable);
World this_world();  // from the environment

// gpu_of() returns the GPU index of this rank; the ranks of a host take its GPUs round-robin. ranks_on_gpu_of() returns
// how many ranks use that GPU, including this one.
int gpu_of(const World& world, int gpus);
int ranks_on_gpu_of(const World& world, int gpus);

}  // namespace strobe::comm
