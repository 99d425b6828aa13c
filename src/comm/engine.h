// Interface of an engine, which executes collectives (single, mpi or nccl). Only the communicator's thread calls an
// engine: one collective at a time, in the same order on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/collective.h"
#include "comm/world.h"

namespace strobe::comm {

// Polled during a call; returns true if the call must be abandoned.
using Stopped = std::function<bool()>;

class Engine {
 public:
  virtual ~Engine() = default;

  virtual bool takes_gpu_memory() const { return false; }

  // Returns rank 0's text on all ranks. The communicator calls this before the first collective to broadcast rank 0's
  // address, if no environment variable has the address. The default implementation returns `text`.
  virtual std::string share_text(const std::string& text) { return text; }

  // Runs one collective. Returns when `out` is complete, or soon after `stopped` returns true. In the second case, no
  // other collective follows. Sizes are already checked. Throws Error(runtime) if the underlying library fails.
  virtual void run(const Collective& collective, const Stopped& stopped) = 0;

  // Shuts down the library. All ranks call this after the last collective, but not after a failure.
  virtual void finish() {}
};

// Default maximum of elements per MPI call, since MPI's counts are 32-bit. Tests use a small value.
inline constexpr std::int64_t kChunk = std::int64_t{1} << 28;

std::unique_ptr<Engine> make_single_engine();

// Initializes MPI and sets rank, size and one_host of the world. make_mpi_engine() and plain_mpi_all_reduce() throw
// Error(unsupported) if this build has no MPI; make_nccl_engine() and nccl_id() throw it if this build has no NCCL.
std::unique_ptr<Engine> make_mpi_engine(World& world, std::int64_t chunk);
const char* why_no_mpi();  // null if MPI is built in

// Each rank needs its own GPU. `id` is rank 0's nccl_id(), the same on all ranks.
std::unique_ptr<Engine> make_nccl_engine(const World& world, const std::string& id);
std::string nccl_id();
const char* why_no_nccl();

// --- plain MPI without Strobe ----------------------------------------------------------------------------------------

// Baseline of `strobe comm`: calls MPI_Allreduce on MPI_COMM_WORLD, which the mpi engine must have initialized. No
// other call may be pending. `count` must be below 2^31.
void plain_mpi_all_reduce(const float* in, float* out, std::int64_t count);

std::string mpi_version();  // "Open MPI v4.1.4"; "none" if MPI is not built in

}  // namespace strobe::comm
