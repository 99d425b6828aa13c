// Signals of this process, read from a descriptor. The launcher passes them on to its ranks.
#pragma once

#include <signal.h>

namespace strobe {

// Blocks and queues SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM while this object lives, except
// those that the parent process ignores (app/signals.h).
class SignalQueue {
 public:
  SignalQueue();  // throws Error(runtime)
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int descriptor() const { return descriptor_; }  // readable if a signal is queued
  int next() const;                               // number of the next signal; 0: none
  void restore() const;                           // unblocks them, for a forked child

 private:
  sigset_t set_, before_;
  int descriptor_;
};

}  // namespace strobe
