// Interface of an engine, the transport of collectives. Only the communicator's thread calls an engine: one collective
// at a time, in the same order on all ranks.
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

  // Broadcasts rank 0's text before any collective, so that ranks can connect if no environment variable has the
  // address.
  virtual std::string share_text(const std::string& text) { return text; }

  // Returns when `out` is complete, or soon after `stopped` returns true. In both cases the engine no longer accesses
  // `in` and `out`. Sizes are already checked. Throws Error(runtime) if the underlying library fails.
  virtual void run(const Collective& collective, const Stopped& stopped) = 0;

  // Shuts down in order; collective. The destructor does not shut down the library.
  virtual void finish() {}
};

// Maximum elements per library call of the engines below, whose counts are 32-bit. Tests use a small value.
inline constexpr std::int64_t kChunk = std::int64_t{1} << 28;

std::unique_ptr<Engine> make_single_engine();

// Sets the world's rank and size from MPI. From then on only the calling thread may call MPI. Throws Error(unsupported)
// if this build has no MPI. The other functions of an engine that is not built in throw the same.
std::unique_ptr<Engine> make_mpi_engine(World& world, std::int64_t chunk);
const char* why_no_mpi();  // null: MPI is built in

// One rank per GPU. `id` is rank 0's nccl_id(), equal on all ranks.
std::unique_ptr<Engine> make_nccl_engine(const World& world, const std::string& id);
std::string nccl_id();
const char* why_no_nccl();

// --- plain MPI without Strobe ----------------------------------------------------------------------------------------

// Baseline that `strobe comm` compares with.
// Calls MPI_Allreduce on the world of the mpi engine. No other call may be pending. `count` must be below 2^31.
void plain_mpi_all_reduce(const float* in, float* out, std::int64_t count);

std::string mpi_version();  // "Open MPI v4.1.4"; "none" if MPI is not built in

}  // namespace strobe::comm
