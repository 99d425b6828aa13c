// The communicator's thread: takes calls from a queue and runs them on the engine. communicator.cpp uses it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "comm/communicator.h"
#include "strobe/error.h"

namespace strobe::comm {

struct Pending::Call {
  Collective what;
  std::int64_t number = 0;  // from 1
  int gpu = 0;              // GPU memory: the caller's current GPU
  CallTimes times{};
  enum class Stage { queued, running, done, failed } stage = Stage::queued;
  std::shared_ptr<Communicator::State> owner;
};

// State shared with the thread. The thread may outlive the communicator if the engine's library does not return.
struct Communicator::State {
  World world;
  EngineKind kind;
  CommunicatorOptions options;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Pending::Call>> queue;
  std::int64_t calls = 0;  // queued so far
  bool ready = false;      // the engine and the peers are connected
  bool closing = false;    // no call will follow
  bool ended = false;      // the thread has finished
  std::string failure;     // reason why every call fails: "rank 2 on HOST ended without a word"
  ErrorCode code = ErrorCode::runtime;
  std::unique_ptr<Peers> peers;  // null for one rank
  std::unique_ptr<Engine> engine;

  void work();   // the thread's body
  void begin();  // engine and peers
  void perform(Pending::Call& call);
  void await_memory(Pending::Call& call);  // waits for GPU memory; the call begins when it is ready
  void fail_call(std::string why);         // requires the lock
  std::string place() const;               // "rank 1 of 4 on HOST"
};

}  // namespace strobe::comm
