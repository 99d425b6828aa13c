// Ranks that work together: broadcast, all-reduce, reduce-scatter, all-gather, barrier, each also asynchronous. One
// thread of its own does all calls, in the order in which they were started; that order must be the same on all ranks.
// Every wait has a limit, and ends early where another rank is lost: then it throws, on every rank, one line that names
// rank, host and operation. The strategies of data parallel training stand on this.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "comm/collective.h"
#include "comm/engine.h"
#include "comm/peers.h"
#include "comm/world.h"

namespace strobe::comm {

enum class EngineKind { automatic, single, mpi, nccl };  // automatic: single for one rank, mpi for more

const char* name_of(EngineKind kind);

// The engine that `automatic` stands for in this world.
EngineKind engine_for(EngineKind asked, const World& world);

// Moments of a call on the steady clock, in seconds. It begins when it is its turn and its memory is ready.
struct CallTimes {
  double queued = 0, began = 0, ended = 0;
};

// A call under way. Its memory must stay until it was waited for (or has failed).
class Pending {
 public:
  Pending() = default;  // of nothing: done

  bool done() const;        // throws Error(runtime) where it has failed
  void wait() const;        // likewise
  CallTimes times() const;  // of a call that is done

  struct Call;

 private:
  friend class Communicator;
  explicit Pending(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  std::shared_ptr<Call> call_;
};

struct CommunicatorOptions {
  EngineKind engine = EngineKind::automatic;
  Limits limits{};
  Facts facts{};
  std::int64_t chunk = kChunk;
};

// STROBE_COMM_TIMEOUT and STROBE_COMM_SILENCE in seconds, else the defaults. Throws Error(invalid_argument).
Limits limits_from(const Variable& variable);

class Communicator {
 public:
  // All ranks of the world make one, with the same facts. Throws Error on every rank where they differ
  // (invalid_argument), where the engine is not built in (unsupported) or a rank does not come (runtime). With nccl the
  // calling thread's current GPU becomes the one of its number among the host's ranks.
  explicit Communicator(const World& world, const CommunicatorOptions& options = {});
  // Waits for what is under way, then leaves together with the others. During an exception it gives up instead: the
  // others learn of it at once.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const World& world() const { return world_; }
  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  EngineKind engine() const { return kind_; }
  const Limits& limits() const;
  Share share(std::int64_t total) const { return share_of(total, rank(), size()); }  // this rank's

  // Started now, done later, in memory of the calling thread's current GPU or of the host. `after`: GPU memory is ready
  // once it has passed. Bad sizes throw Error(invalid_argument).
  Pending start(const Collective& collective);
  Pending start_broadcast(const Elements& data, int root = 0);
  Pending start_all_reduce(const Elements& in, const Elements& out);      // sums; `in` may be `out`
  Pending start_reduce_scatter(const Elements& in, const Elements& out);  // out: this rank's share of the sums
  Pending start_all_gather(const Elements& in, const Elements& out);  // in: this rank's share, or its place in `out`
  Pending start_barrier();

  void broadcast(const Elements& data, int root = 0) { start_broadcast(data, root).wait(); }
  void all_reduce(const Elements& data) { start_all_reduce(data, data).wait(); }
  void all_reduce(const Elements& in, const Elements& out) { start_all_reduce(in, out).wait(); }
  void reduce_scatter(const Elements& in, const Elements& out) { start_reduce_scatter(in, out).wait(); }
  void all_gather(const Elements& in, const Elements& out) { start_all_gather(in, out).wait(); }
  void barrier() { start_barrier().wait(); }
  // A barrier in which the other ranks sleep until rank 0 enters it, so that they do not disturb rank 0's work.
  void barrier_asleep() { start({.waiting = Waiting::asleep}).wait(); }

  // Ends the work of all ranks: each one's next or current wait throws with this rank and the reason.
  void abort(std::string_view reason);

  struct State;

 private:
  World world_;
  EngineKind kind_;
  std::shared_ptr<State> state_;
  std::thread thread_;
  int exceptions_;  // under way when this was made
};

}  // namespace strobe::comm
