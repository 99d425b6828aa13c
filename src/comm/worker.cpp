// Implements the communicator's thread: connects the ranks, runs queued calls on the engine and records failures.
#include "comm/worker.h"

#include "comm/staging.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/token.h"
#include "device/gpu_facts.h"
#include "device/gpu_stream.h"

namespace strobe::comm {
namespace {

// Returns the address on which rank 0 listens: that of STROBE_INTERFACE if set, loopback if all ranks are on one host,
// otherwise all interfaces.
std::string listening_address(const World& world) {
  if (!world.interface.empty()) return address_of_interface(world.interface);
  return world.is_on_one_host() ? kLoopback : kAllInterfaces;
}

// Opens rank 0's listening socket. If that fails, broadcasts the error, because the other ranks wait for the address.
Listener listen_for_others(Engine& engine, const World& world) {
  try {
    return Listener(listening_address(world));
  } catch (const Error& error) {
    engine.share_text(json_of(Refusal{error.what(), error.code() == ErrorCode::invalid_argument}).dump());
    throw;
  }
}

// Connects rank 0 to the others: listens on any free port and broadcasts address and port through MPI. Also broadcasts
// a token unless the launcher has set one.
std::unique_ptr<Peers> meet_others(Engine& engine, World& world, const CommunicatorOptions& options) {
  Listener listener = listen_for_others(engine, world);
  const std::string address = listening_address(world);
  Json meeting = Json::object({{"local_addresses", addresses_of_listener(address, From::this_host)},
                               {"addresses", addresses_of_listener(address, From::other_hosts)},
                               {"host", world.host},
                               {"port", listener.port()}});
  if (world.token.empty()) meeting.set("token", world.token = random_hex());
  engine.share_text(meeting.dump());
  return std::make_unique<Peers>(world, options.facts, options.limits, listener, "");
}

std::unique_ptr<Peers> meet_rank_0(Engine& engine, World& world, const CommunicatorOptions& options) {
  const Json meeting = Json::parse(engine.share_text(""));
  if (const std::optional<Refusal> refusal = parse_refusal(meeting)) fail_as(*refusal);
  if (const Json* token = meeting.find("token")) world.token = token->as_string();
  if (world.token.empty())
    fail(ErrorCode::invalid_argument, "{} is set on rank 0 and not on rank {}; valid: the same on all ranks, or none",
         kTokenVariable, world.rank);
  const bool same_host = meeting.at("host").as_string() == world.host;
  return std::make_unique<Peers>(world, options.facts, options.limits,
                                 meeting.at(same_host ? "local_addresses" : "addresses").as_string(),
                                 static_cast<int>(meeting.at("port").as_integer()));
}

// Returns the listening socket inherited from the launcher, if there is one. Otherwise listens on MASTER_PORT, on the
// interface of MASTER_ADDR if this host has that address.
Listener listener_at_master(const World& world) {
  if (world.master_listener >= 0) return Listener::adopt(world.master_listener, world.master_port);
  std::string address = listening_address(world);
  if (const std::string own = own_address_of(world.master_address); address == kAllInterfaces && !own.empty())
    address = own;
  return Listener(address, world.master_port);
}

// Connects the ranks through MASTER_ADDR and MASTER_PORT. Rank 0 sends `shared` to all ranks.
std::unique_ptr<Peers> meet_at_master(const World& world, const CommunicatorOptions& options, std::string shared) {
  if (world.master_address.empty() || world.master_port == 0)
    fail(ErrorCode::invalid_argument,
         "nccl: {} ranks find each other by MASTER_ADDR and MASTER_PORT, which are not set (strobe launch sets them)",
         world.size);
  if (world.token.empty())
    fail(ErrorCode::invalid_argument, "nccl: {} is not set: {} ranks need the same random word (strobe launch sets it)",
         kTokenVariable, world.size);
  if (world.rank == 0) {
    Listener listener = listener_at_master(world);
    return std::make_unique<Peers>(world, options.facts, options.limits, listener, std::move(shared));
  }
  return std::make_unique<Peers>(world, options.facts, options.limits, world.master_address, world.master_port);
}

}  // namespace

std::string Communicator::State::place() const {
  return world.size > 0 ? fmt::format("rank {} of {} on {}", world.rank, world.size, world.host)
                        : fmt::format("rank {} on {}", world.rank, world.host);
}

void Communicator::State::begin() {
  if (kind != EngineKind::mpi && world.size == 1 && world.started > 1)
    fail(ErrorCode::invalid_argument, "{} reports 1 rank but strobe launch started {}", world.launcher, world.started);
  switch (kind) {
    case EngineKind::automatic:
    case EngineKind::single:
      if (world.size > 1)
        fail(ErrorCode::invalid_argument, "engine single: {} ranks were started; valid: mpi, nccl", world.size);
      world.size = 1;
      engine = make_single_engine();
      break;
    case EngineKind::mpi:
      engine = std::make_unique<StagedEngine>(make_mpi_engine(world, options.chunk), world);
      if (world.size > 1)
        peers = world.rank == 0 ? meet_others(*engine, world, options) : meet_rank_0(*engine, world, options);
      break;
    case EngineKind::nccl: {
      if (const char* why = why_no_nccl()) fail(ErrorCode::unsupported, "nccl: {}", why);
      std::string id = world.rank == 0 ? nccl_id() : "";
      if (world.size > 1) peers = meet_at_master(world, options, id);
      engine = make_nccl_engine(world, peers ? peers->shared() : id);
      break;
    }
  }
}

void Communicator::State::fail_call(std::string why) {
  if (failure.empty()) failure = std::move(why);
}

// Waits until the call's GPU memory is ready. Only then does the time limit of the call start, since the GPU may have
// much earlier work to run.
void Communicator::State::await_memory(Pending::Call& call) {
  if (call.what.out.memory != Memory::gpu) return;
  use_gpu(call.gpu);
  if (!call.what.after) return;
  call.what.after->synchronize();
  const std::lock_guard lock(mutex);
  call.times.began = now_seconds();
}

void Communicator::State::perform(Pending::Call& call) {
  bool given_up = false;
  const Stopped stopped = [&] {
    const bool late = now_seconds() > call.times.began + options.limits.operation;
    given_up = given_up || (peers && peers->failed()) || late;
    return given_up;
  };
  std::string why;
  try {
    await_memory(call);
    if (peers) peers->entered(call.number);
    if (peers && call.what.waiting == Waiting::asleep)
      peers->await_rank_0(call.number, call.times.began + options.limits.operation);
    engine->run(call.what, stopped);
  } catch (const std::exception& error) {
    given_up = true;
    why = error.what();
  }
  if (!given_up) return;
  if (why.empty() && peers && peers->failed()) why = peers->failure();
  if (why.empty())
    why = fmt::format("not complete in {:g} s{}", options.limits.operation, peers ? peers->late_for(call.number) : "");
  if (peers && !peers->failed()) peers->give_up(fmt::format("{}: {}", call.what.text(), why));
  const std::lock_guard lock(mutex);
  fail_call(why);
}

void Communicator::State::work() {
  try {
    begin();
  } catch (const Error& error) {
    const std::lock_guard lock(mutex);
    code = error.code();
    fail_call(error.what());
  } catch (const std::exception& error) {  // out of memory, or no thread
    const std::lock_guard lock(mutex);
    fail_call(error.what());
  }
  std::unique_lock lock(mutex);
  ready = true;
  changed.notify_all();
  for (;;) {
    changed.wait(lock, [&] { return closing || !queue.empty(); });
    if (queue.empty()) break;
    const std::shared_ptr<Pending::Call> call = queue.front();
    queue.pop_front();
    if (failure.empty()) {
      call->stage = Pending::Call::Stage::running;
      call->times.began = now_seconds();
      lock.unlock();
      perform(*call);
      lock.lock();
    }
    call->times.ended = now_seconds();
    call->stage = failure.empty() ? Pending::Call::Stage::done : Pending::Call::Stage::failed;
    changed.notify_all();
  }
  const bool orderly = failure.empty();
  lock.unlock();
  if (orderly && engine && (!peers || peers->leave())) engine->finish();
  peers.reset();
  lock.lock();
  ended = true;
  changed.notify_all();
}

}  // namespace strobe::comm
