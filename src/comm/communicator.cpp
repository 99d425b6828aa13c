// Implements the caller's side of the communicator: checks arguments, queues calls and waits for them.
#include "comm/communicator.h"

#include <stdlib.h>

#include <charconv>
#include <exception>
#include <thread>

#include "comm/worker.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/gpu_facts.h"

namespace strobe::comm {
namespace {

constexpr double kPatience = 5;  // seconds that the communicator's thread has to report a failure after a time limit

[[noreturn]] void fail_of(const Communicator::State& state, const std::string& operation, const std::string& why) {
  fail(state.code, "{}: {}: {}", state.place(), operation, why);
}

std::string operation_of(const Pending::Call& call) {
  return fmt::format("{} (call {})", call.what.text(), call.number);
}

double seconds_from(const Variable& variable, const char* name, double otherwise) {
  const char* text = variable(name);
  if (!text) return otherwise;
  const std::string_view value = text;
  constexpr double kMost = 1e9;  // condition variables count nanoseconds in 63 bits, so larger limits would overflow
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || !(number > 0) || !(number <= kMost))
    fail(ErrorCode::invalid_argument, "{} is {}: not a number of seconds above 0 and at most {:g}", name,
         printable_value(value), kMost);
  return number;
}

void check(const Collective& one, int rank, int size) {
  const auto refuse = [&](const std::string& why) { fail(ErrorCode::invalid_argument, "{}: {}", one.text(), why); };
  for (const Elements& side : {one.in, one.out}) {
    if (side.count < 0) refuse(fmt::format("{} elements; valid: 0 or more", side.count));
    if (side.count > 0 && !side.data) refuse("no memory given");
  }
  if (one.kind == Kind::broadcast && (one.root < 0 || one.root >= size))
    refuse(fmt::format("root {}; valid: 0 to {}", one.root, size - 1));
  if (one.kind == Kind::barrier || one.kind == Kind::broadcast) return;
  if (one.in.element != one.out.element || one.in.memory != one.out.memory)
    refuse(fmt::format("{} in, {} out; valid: the same type, both in host or both in GPU memory",
                       name_of(one.in.element), name_of(one.out.element)));
  if (one.kind != Kind::all_gather && one.in.element == Element::byte)
    refuse("bytes are not summed; valid: fp32, fp64, int64");
  const std::int64_t share = share_of(one.total(), rank, size).count;
  const std::int64_t in = one.kind == Kind::all_gather ? share : one.total();
  const std::int64_t out = one.kind == Kind::reduce_scatter ? share : one.total();
  if (one.in.count != in || one.out.count != out)
    refuse(fmt::format("{} elements in and {} out on rank {} of {}; valid: {} and {}", one.in.count, one.out.count,
                       rank, size, in, out));
  if (one.kind == Kind::reduce_scatter && size > 1 && one.in.count > 0 && one.in.data == one.out.data)
    refuse("`in` and `out` are the same memory; valid: separate memory");
}

}  // namespace

const char* name_of(EngineKind kind) {
  switch (kind) {
    case EngineKind::automatic: return "auto";
    case EngineKind::single: return "single";
    case EngineKind::mpi: return "mpi";
    case EngineKind::nccl: return "nccl";
  }
  return "unknown";
}

EngineKind engine_for(EngineKind asked, const World& world) {
  if (asked != EngineKind::automatic) return asked;
  return world.size == 1 && world.started <= 1 ? EngineKind::single : EngineKind::mpi;  // size 0: MPI will set it
}

Limits limits_from(const Variable& variable) {
  const Limits usual;
  return {.silence = seconds_from(variable, "STROBE_COMM_SILENCE", usual.silence),
          .operation = seconds_from(variable, "STROBE_COMM_TIMEOUT", usual.operation)};
}

bool Pending::done() const {
  if (!call_) return true;
  const std::shared_ptr<Communicator::State> state = call_->owner;
  std::unique_lock lock(state->mutex);
  if (call_->stage == Call::Stage::failed) fail_of(*state, operation_of(*call_), state->failure);
  return call_->stage == Call::Stage::done;
}

void Pending::wait() const {
  if (!call_) return;
  const std::shared_ptr<Communicator::State> state = call_->owner;
  std::unique_lock lock(state->mutex);
  double failed_at = 0;
  while (call_->stage == Call::Stage::queued || call_->stage == Call::Stage::running) {
    state->changed.wait_for(lock, std::chrono::milliseconds(200));
    const double now = now_seconds();
    if (state->peers && state->peers->failed() && failed_at == 0) failed_at = now;
    const bool over =
        call_->stage == Call::Stage::running && now > call_->times.began + state->options.limits.operation + kPatience;
    if (over || (failed_at > 0 && now > failed_at + kPatience)) {  // the engine has not returned in time
      state->fail_call(failed_at > 0 ? state->peers->failure()
                                     : fmt::format("not complete in {:g} s", state->options.limits.operation));
      call_->stage = Call::Stage::failed;
    }
  }
  if (call_->stage == Call::Stage::failed) fail_of(*state, operation_of(*call_), state->failure);
}

CallTimes Pending::times() const { return call_ ? call_->times : CallTimes{}; }

Communicator::Communicator(const World& world, const CommunicatorOptions& options)
    : world_(world),
      kind_(engine_for(options.engine, world)),
      state_(std::make_shared<State>()),
      exceptions_(std::uncaught_exceptions()) {
  state_->world = world;
  state_->kind = kind_;
  state_->options = options;
  thread_ = std::thread([state = state_] { state->work(); });
  std::unique_lock lock(state_->mutex);
  const std::string operation = fmt::format("start of engine {}", name_of(kind_));
  const auto patience = std::chrono::duration<double>(options.limits.operation + kPatience);
  if (!state_->changed.wait_for(lock, patience, [&] { return state_->ready; })) {
    thread_.detach();
    fail_of(*state_, operation, fmt::format("not complete in {:g} s", options.limits.operation));
  }
  if (!state_->failure.empty()) {
    state_->closing = true;
    state_->changed.notify_all();
    lock.unlock();
    thread_.join();
    fail_of(*state_, operation, state_->failure);
  }
  world_ = state_->world;
  if (kind_ == EngineKind::nccl) use_gpu(world_.local_rank);
}

Communicator::~Communicator() {
  std::unique_lock lock(state_->mutex);
  if (state_->failure.empty() && state_->peers && std::uncaught_exceptions() > exceptions_) {
    lock.unlock();
    abort("see the error that it printed");
    lock.lock();
  }
  state_->closing = true;
  state_->changed.notify_all();
  const auto patience = std::chrono::duration<double>(state_->options.limits.operation + kPatience);
  const bool ended = state_->changed.wait_for(lock, patience, [&] { return state_->ended; });
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

Pending Communicator::start(const Collective& collective) {
  check(collective, rank(), size());
  auto call = std::make_shared<Pending::Call>();
  call->what = collective;
  call->owner = state_;
  if (collective.out.memory == Memory::gpu) call->gpu = current_gpu().index;
  call->times.queued = now_seconds();
  const std::lock_guard lock(state_->mutex);
  call->number = ++state_->calls;
  if (!state_->failure.empty()) fail_of(*state_, operation_of(*call), state_->failure);
  state_->queue.push_back(call);
  state_->changed.notify_all();
  return Pending(std::move(call));
}

Pending Communicator::start_broadcast(const Elements& data, int root) {
  return start({.kind = Kind::broadcast, .in = {}, .out = data, .root = root});
}
Pending Communicator::start_all_reduce(const Elements& in, const Elements& out) {
  return start({.kind = Kind::all_reduce, .in = in, .out = out});
}
Pending Communicator::start_reduce_scatter(const Elements& in, const Elements& out) {
  return start({.kind = Kind::reduce_scatter, .in = in, .out = out});
}
Pending Communicator::start_all_gather(const Elements& in, const Elements& out) {
  return start({.kind = Kind::all_gather, .in = in, .out = out});
}
Pending Communicator::start_barrier() { return start({}); }

const Limits& Communicator::limits() const { return state_->options.limits; }

void Communicator::abort(std::string_view reason) {
  if (state_->peers) state_->peers->give_up(std::string(reason));
  const std::lock_guard lock(state_->mutex);
  state_->fail_call(fmt::format("this rank gave up: {}", reason));
}

}  // namespace strobe::comm
