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
  int gpu = 0;              // the caller's current GPU, for calls on GPU memory
  CallTimes times{};
  enum class Stage { queued, running, done, failed } stage = Stage::queued;
  std::shared_ptr<Communicator::State> owner;
};

// State shared with the thread, which may outlive the communicator if the engine does not return.
struct Communicator::State {
  World world;
  EngineKind kind;
  CommunicatorOptions options;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Pending::Call>> queue;
  std::int64_t calls = 0;  // calls queued so far
  bool ready = false;      // begin() has returned or failed
  bool closing = false;    // no call will follow
  bool ended = false;      // the thread has finished
  std::string failure;     // reason why every call fails: "rank 2 on HOST ended without a message"
  ErrorCode code = ErrorCode::runtime;
  std::unique_ptr<Peers> peers;  // null if the world has one rank
  std::unique_ptr<Engine> engine;

  void work();   // the thread's body
  void begin();  // creates the engine and connects the ranks
  void perform(Pending::Call& call);
  void await_memory(Pending::Call& call);  // waits until GPU memory is ready
  void fail_call(std::string why);         // records why; the caller must hold the mutex
  std::string place() const;               // "rank 1 of 4 on HOST"
};

}  // namespace strobe::comm
