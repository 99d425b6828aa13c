// Signals of this process: they end the program cleanly, are stored for the program to check, or are queued.
#pragma once

#include <signal.h>

namespace strobe {

// On SIGINT and SIGTERM, the program calls signal_message() and exits with 128 + signal number. SIGHUP, SIGUSR1,
// SIGUSR2, SIGXCPU and SIGALRM do the same unless the parent process ignored them. SIGBUS (a mapped file became
// shorter, or its disk failed) exits with 3. SIGPIPE and SIGXFSZ are ignored, so that write() reports the error.
// `program` begins the error line for SIGBUS. Both arguments must stay valid until the process ends.
void end_cleanly_on_signals(const char* program, void (*signal_message)() noexcept = nullptr);

// Returns false if the parent process ignored the signal (nohup); this process then ignores it too. SIGINT (Ctrl-C in a
// terminal) and SIGTERM are always handled.
bool is_handled(int number);

// After this call, the first signal is only stored. The program checks for it between two steps, saves and exits. A
// second SIGINT, SIGTERM or SIGHUP ends the program as above if it comes more than a second after the first of these
// three. The other signals never end the program: they are warnings, which batch systems and the kernel repeat.
void remember_first_signal();
int remembered_signal();  // signal number; 0: none yet

// While this object exists, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM are blocked and queued,
// except those that the parent process ignored.
class SignalQueue {
 public:
  SignalQueue();  // throws Error(runtime)
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int descriptor() const { return descriptor_; }  // readable if a signal is queued
  int next() const;                               // number of the next queued signal; 0: none
  void restore() const;                           // unblocks the signals, for a forked child

 private:
  sigset_t set_, before_;
  int descriptor_;
};

}  // namespace strobe
