// Signals of this process: they end the program cleanly, are remembered, or are read from a queue.
#pragma once

#include <signal.h>

namespace strobe {

// On SIGINT and SIGTERM the program calls signal_message() and ends with 128 + number. SIGHUP, SIGUSR1, SIGUSR2,
// SIGXCPU and SIGALRM do the same unless the parent process ignores them. On SIGBUS (a mapped file became shorter or
// its disk failed) it ends with 3. SIGPIPE and SIGXFSZ are ignored, so write() reports the error. `program` is the
// prefix of the line for SIGBUS. Both arguments must stay valid until the process ends.
void end_cleanly_on_signals(const char* program, void (*signal_message)() noexcept = nullptr);

// False if the parent process ignores the signal (nohup); this process then ignores it too. A terminal's Ctrl-C
// (SIGINT) and SIGTERM always end the program.
bool is_handled(int number);

// From now on the first of those signals is only stored. The program checks for it between two steps, saves and ends. A
// second SIGINT, SIGTERM or SIGHUP, more than a second after the first of these three, ends the program as above. The
// other signals are warnings that batch systems and the kernel repeat; they never end it.
void remember_first_signal();
int remembered_signal();  // its number; 0: none yet

// Blocks and queues SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM while this object lives, except
// those that the parent process ignores.
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
