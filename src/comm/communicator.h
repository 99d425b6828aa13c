// Collective communication between ranks: broadcast, all-reduce, reduce-scatter, all-gather and barrier, each also
// asynchronous. The communicator's thread runs all calls in the order in which they were started, which must be the
// same on all ranks. Every wait has a time limit and ends early if a rank is lost. Then every rank throws an Error
// whose text names rank, host and operation.
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

// Returns `asked`, or the engine that `automatic` selects in this world.
EngineKind engine_for(EngineKind asked, const World& world);

// Times of a call on the steady clock, in seconds. At `began`, all earlier calls have ended and the call's memory is
// ready.
struct CallTimes {
  double queued = 0, began = 0, ended = 0;
};

// A call that was started. Its memory must stay valid until wait() or done() reports its end or failure.
class Pending {
 public:
  Pending() = default;  // represents no call; done() is true

  bool done() const;        // throws Error(runtime) if the call failed
  void wait() const;        // throws Error(runtime) if the call failed
  CallTimes times() const;  // valid after the call is done

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
  std::int64_t chunk = kChunk;  // maximum elements per MPI call; tests use a small value
};

// Reads STROBE_COMM_TIMEOUT and STROBE_COMM_SILENCE in seconds. Throws Error(invalid_argument) for an invalid number.
Limits limits_from(const Variable& variable);

class Communicator {
 public:
  // Collective: every rank of the world constructs one, with equal facts. Throws Error on every rank if facts differ
  // (invalid_argument), the engine is not built in (unsupported) or a rank does not connect (runtime). With nccl,
  // GPU number world().local_rank becomes the calling thread's current GPU.
  explicit Communicator(const World& world, const CommunicatorOptions& options = {});
  // Waits for pending calls, then leaves together with the other ranks. During stack unwinding it aborts instead, which
  // notifies the others at once.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const World& world() const { return world_; }
  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  EngineKind engine() const { return kind_; }
  const Limits& limits() const;
  Share share(std::int64_t total) const { return share_of(total, rank(), size()); }  // share of this rank

  // Each function starts a call on host memory, or on memory of the calling thread's current GPU, and returns at once.
  // Throws Error(invalid_argument) for invalid arguments, and Error if an earlier call has failed.
  Pending start(const Collective& collective);
  Pending start_broadcast(const Elements& data, int root = 0);
  Pending start_all_reduce(const Elements& in, const Elements& out);      // sum; `in` may be `out`
  Pending start_reduce_scatter(const Elements& in, const Elements& out);  // out: this rank's share of the sum
  Pending start_all_gather(const Elements& in, const Elements& out);      // in: this rank's share; may be part of `out`
  Pending start_barrier();

  void broadcast(const Elements& data, int root = 0) { start_broadcast(data, root).wait(); }
  void all_reduce(const Elements& data) { start_all_reduce(data, data).wait(); }
  void all_reduce(const Elements& in, const Elements& out) { start_all_reduce(in, out).wait(); }
  void reduce_scatter(const Elements& in, const Elements& out) { start_reduce_scatter(in, out).wait(); }
  void all_gather(const Elements& in, const Elements& out) { start_all_gather(in, out).wait(); }
  void barrier() { start_barrier().wait(); }
  // A barrier in which the other ranks sleep until rank 0 enters it, so that they do not disturb rank 0's work.
  void barrier_asleep() { start({.waiting = Waiting::asleep}).wait(); }

  // Ends the work of all ranks: the current or next wait of every rank throws an Error with this rank and the reason.
  void abort(std::string_view reason);

  struct State;

 private:
  World world_;
  EngineKind kind_;
  std::shared_ptr<State> state_;
  std::thread thread_;
  int exceptions_;  // uncaught exceptions at construction
};

}  // namespace strobe::comm
