// Signals of this process as things to read. The launcher passes them on to its ranks.
#pragma once

#include <signal.h>

namespace strobe::cli {

// SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 wait here for as long as this lives.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int descriptor() const { return descriptor_; }  // readable where there is one
  int next() const;                               // 0: none
  void restore() const;                           // signals act as they did before, in a child too

 private:
  sigset_t set_, before_;
  int descriptor_;
};

}  // namespace strobe::cli
