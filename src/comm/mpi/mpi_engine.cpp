// Engine mpi: non-blocking MPI collectives, and class Ring for large reductions. The communicator's thread polls them,
// so they need no progress thread and can be abandoned when a rank is lost.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/engine.h"
#include "comm/mpi/ring.h"
#include "core/fail.h"

namespace strobe::comm {
namespace {

constexpr std::int64_t kRingBytes = 1 << 17;  // reductions of at least this size use Ring instead of MPI's algorithm

// Facts that each rank knows about the job; gathered on all ranks.
struct RankView {
  int size = 0;  // ranks according to the launcher's variables; 0: unknown
  char host[256] = "";
  char network[256] = "";  // boot id and network namespace: ranks with the same value share a loopback interface
};

std::string network_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = "";
  static_cast<void>(!readlink("/proc/self/ns/net", space, sizeof(space) - 1));
  return boot + " " + space;
}

// Returns advice on how to start the ranks. torchrun starts no MPI job, so MPI sees every process as a job of one rank.
const char* way_to_start(const World& world) {
  if (world.launcher != kTorchrun) return "start all with the mpirun of the same MPI";
  return "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (torchrun) serve engine nccl only; start ranks of "
         "engine mpi with strobe launch or mpirun";
}

// Throws if the launcher's variables and MPI disagree on the number of ranks. Without this check some ranks would end
// early, and the others would wait for them. Sets world.one_host.
void compare_ranks(World& world, int size) {
  RankView own;
  own.size = size;
  world.host.copy(own.host, sizeof(own.host) - 1);
  network_identity().copy(own.network, sizeof(own.network) - 1);
  std::vector<RankView> all(static_cast<std::size_t>(world.size));
  check_mpi(MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, MPI_COMM_WORLD),
            "MPI_Allgather");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size == 0 || all[rank].size == world.size) continue;
    fail(ErrorCode::invalid_argument, "the ranks differ: rank {} ({}) was started with {} ranks and MPI has {}; {}",
         rank, all[rank].host, all[rank].size, world.size, way_to_start(world));
  }
  world.one_host = std::all_of(all.begin(), all.end(), [&](const RankView& one) {
    return std::string_view(one.network) == own.network && std::string_view(one.host) == own.host;
  });
}

class MpiEngine final : public Engine {
 public:
  MpiEngine(World& world, std::int64_t chunk) : chunk_(chunk) {
    int initialized = 0, given = 0;
    MPI_Initialized(&initialized);
    if (initialized) fail(ErrorCode::invalid_argument, "mpi: a second communicator in this process; valid: one");
    // Serialized: plain_mpi_all_reduce() calls MPI from another thread, but never at the same time.
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (given < MPI_THREAD_SERIALIZED) fail(ErrorCode::unsupported, "mpi: this MPI has no MPI_THREAD_SERIALIZED");
    const int announced = world.size;
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.size);
    compare_ranks(world, announced);
    rank_ = world.rank;
    size_ = world.size;
    ring_.emplace(rank_, size_);
  }

  std::string share_text(const std::string& text) override {
    auto length = static_cast<std::int64_t>(text.size());
    check_mpi(MPI_Bcast(&length, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
    std::string shared = text;
    shared.resize(static_cast<std::size_t>(length));
    check_mpi(MPI_Bcast(shared.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return shared;
  }

  void run(const Collective& collective, const Stopped& stopped) override {
    const Elements &in = collective.in, &out = collective.out;
    switch (collective.kind) {
      case Kind::barrier: {
        MPI_Request request;
        check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
        drive(&request, 1, stopped);
        return;
      }
      case Kind::broadcast: return broadcast(out, collective.root, stopped);
      case Kind::all_reduce: return all_reduce(in, out, stopped);
      case Kind::reduce_scatter: return reduce_scatter(in, out, stopped);
      case Kind::all_gather: return all_gather(in, out, stopped);
    }
  }

  void finish() override { MPI_Finalize(); }

 private:
  // Calls body(first, count) for chunks that fit MPI's int counts, until it returns false.
  template <class Body>
  void in_chunks(std::int64_t count, Body body) const {
    for (std::int64_t first = 0; first < count; first += chunk_) {
      if (!body(first, static_cast<int>(std::min(chunk_, count - first)))) return;
    }
  }

  void broadcast(const Elements& out, int root, const Stopped& stopped) {
    in_chunks(out.count, [&](std::int64_t first, int count) {
      MPI_Request request;
      check_mpi(MPI_Ibcast(out.part(first, count).data, count, mpi_type(out.element), root, MPI_COMM_WORLD, &request),
                "MPI_Ibcast");
      return drive(&request, 1, stopped);
    });
  }

  void all_reduce(const Elements& in, const Elements& out, const Stopped& stopped) {
    if (out.bytes() >= kRingBytes) return ring_->all_reduce(in, out, stopped);
    in_chunks(out.count, [&](std::int64_t first, int count) {
      MPI_Request request;
      const void* from = in.data == out.data ? MPI_IN_PLACE : in.part(first, count).data;
      check_mpi(MPI_Iallreduce(from, out.part(first, count).data, count, mpi_type(out.element), MPI_SUM, MPI_COMM_WORLD,
                               &request),
                "MPI_Iallreduce");
      return drive(&request, 1, stopped);
    });
  }

  // Sets counts_ and firsts_ to the counts and displacements of all shares. Returns false if `total` exceeds chunk_.
  bool shares_of(std::int64_t total) {
    if (total > chunk_) return false;
    counts_.clear();
    firsts_.clear();
    for (int rank = 0; rank < size_; ++rank) {
      const Share share = share_of(total, rank, size_);
      counts_.push_back(static_cast<int>(share.count));
      firsts_.push_back(static_cast<int>(share.first));
    }
    return true;
  }

  void reduce_scatter(const Elements& in, const Elements& out, const Stopped& stopped) {
    if (in.bytes() >= kRingBytes || !shares_of(in.count)) return ring_->reduce_scatter(in, out, stopped);
    MPI_Request request;
    check_mpi(
        MPI_Ireduce_scatter(in.data, out.data, counts_.data(), mpi_type(in.element), MPI_SUM, MPI_COMM_WORLD, &request),
        "MPI_Ireduce_scatter");
    drive(&request, 1, stopped);
  }

  void all_gather(const Elements& in, const Elements& out, const Stopped& stopped) {
    const Share own = share_of(out.count, rank_, size_);
    const Elements own_share = out.part(own.first, own.count);
    if (shares_of(out.count)) {
      MPI_Request request;
      check_mpi(MPI_Iallgatherv(in.data == own_share.data ? MPI_IN_PLACE : in.data, static_cast<int>(in.count),
                                mpi_type(out.element), out.data, counts_.data(), firsts_.data(), mpi_type(out.element),
                                MPI_COMM_WORLD, &request),
                "MPI_Iallgatherv");
      drive(&request, 1, stopped);
      return;
    }
    if (in.data != own_share.data) std::memcpy(own_share.data, in.data, static_cast<std::size_t>(in.bytes()));
    for (int root = 0; root < size_ && !stopped(); ++root) {
      const Share share = share_of(out.count, root, size_);
      broadcast(out.part(share.first, share.count), root, stopped);
    }
  }

  std::int64_t chunk_;
  int rank_ = 0, size_ = 1;
  std::optional<Ring> ring_;
  std::vector<int> counts_, firsts_;  // per rank, for the current call
};

}  // namespace

const char* why_no_mpi() { return nullptr; }

std::unique_ptr<Engine> make_mpi_engine(World& world, std::int64_t chunk) {
  return std::make_unique<MpiEngine>(world, chunk);
}

void plain_mpi_all_reduce(const float* in, float* out, std::int64_t count) {
  check_mpi(MPI_Allreduce(in, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::string(text, std::find(text, text + length, ','));
}

}  // namespace strobe::comm
