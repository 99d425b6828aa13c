#include "app/signal_queue.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "app/signals.h"
#include "core/fail.h"

namespace strobe {

SignalQueue::SignalQueue() {
  sigemptyset(&set_);
  // The kernel queues a blocked signal even if it is ignored.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM}) {
    if (is_handled(signal)) sigaddset(&set_, signal);
  }
  sigprocmask(SIG_BLOCK, &set_, &before_);
  descriptor_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ >= 0) return;
  const int error = errno;
  restore();
  fail(ErrorCode::runtime, "launch: cannot create a signal descriptor: {}", std::strerror(error));
}

SignalQueue::~SignalQueue() {
  close(descriptor_);
  restore();
}

int SignalQueue::next() const {
  signalfd_siginfo info{};
  return read(descriptor_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

void SignalQueue::restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace strobe
