// Handles of a job's processes. A signal never reaches another process that reuses the pid. job.cpp calls.
#pragma once

#include <sys/types.h>

#include "core/descriptor.h"

namespace strobe {

// A process by its pidfd. On kernels without pidfds: by its pid, which is checked before each signal.
class ProcessHandle {
 public:
  // The process that connected this Unix socket, according to the kernel.
  static ProcessHandle of_peer(int socket);

  explicit operator bool() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }  // to compare; signals go through send()
  bool send(int signal) const;        // false: it has ended

 private:
  pid_t pid_ = 0;
  Descriptor descriptor_;
  long long started_ = 0;  // kernel ticks after boot
};

}  // namespace strobe
