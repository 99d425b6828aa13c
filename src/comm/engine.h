// What moves the bytes. The communicator's own thread calls, one collective at a time, in the same order on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/collective.h"
#include "comm/world.h"

namespace strobe::comm {

// Asked again and again while a call is under way: true where there is no more point in it.
using Stopped = std::function<bool()>;

class Engine {
 public:
  virtual ~Engine() = default;

  virtual bool takes_gpu_memory() const { return false; }

  // Bytes of rank 0 to all, before any collective: how ranks find each other where no variable says so.
  virtual std::string share_text(const std::string& text) { return text; }

  // Returns when `out` is complete, or at once where `stopped` says so: `in` and `out` are not touched any more then.
  // Sizes were checked. Throws Error(runtime) where the library underneath fails.
  virtual void run(const Collective& collective, const Stopped& stopped) = 0;

  // The orderly end, called where all ranks call it. Without it the engine is left as it is.
  virtual void finish() {}
};

// Of the engines below: elements of one call of the library underneath, whose counts are 32-bit. Tests make it small.
inline constexpr std::int64_t kChunk = std::int64_t{1} << 28;

std::unique_ptr<Engine> make_single_engine();

// Fills in the world's rank and size as MPI has them. MPI belongs to the calling thread from now on.
// Throws Error(unsupported) where this build has no MPI, as does every other function of an engine that is not built
// in.
std::unique_ptr<Engine> make_mpi_engine(World& world, std::int64_t chunk);
const char* why_no_mpi();  // null: it is built in

// One rank per GPU. `id` comes from rank 0's nccl_id() and is the same on all ranks.
std::unique_ptr<Engine> make_nccl_engine(const World& world, const std::string& id);
std::string nccl_id();
const char* why_no_nccl();

// --- MPI as a program without Strobe calls it ------------------------------------------------------------------------

// What `strobe comm` compares the communicator with.
// MPI_Allreduce on the world of the mpi engine, while nothing else is under way. Fewer than 2^31 elements.
void plain_mpi_all_reduce(const float* in, float* out, std::int64_t count);

std::string mpi_version();  // "Open MPI v4.1.4"; "none" where it is not built in

}  // namespace strobe::comm
