// Processes of a job, held so that a signal never reaches another process that got the same number. launch_job.cpp
// calls.
#pragma once

#include <sys/types.h>

#include <utility>
#include <vector>

namespace strobe::cli {

// A process by its pidfd. On kernels without pidfds it is a number, which is checked before each signal.
class ProcessHandle {
 public:
  ProcessHandle() = default;
  // The process that connected this Unix socket, as the kernel knows it.
  static ProcessHandle of_peer(int socket);

  ProcessHandle(ProcessHandle&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        started_(other.started_) {}
  ProcessHandle& operator=(ProcessHandle&& other) noexcept {
    std::swap(pid_, other.pid_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(started_, other.started_);
    return *this;
  }
  ~ProcessHandle();

  explicit operator bool() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }  // to compare; signals go through send()
  bool send(int signal) const;        // false: it has ended

 private:
  pid_t pid_ = 0;
  int descriptor_ = -1;
  long long started_ = 0;  // kernel ticks after boot
};

bool is_descendant(pid_t process, pid_t ancestor);  // through the parents that /proc names

// Live or ended children of this process that it has not waited for. Their numbers cannot be reused meanwhile.
std::vector<pid_t> own_children();

}  // namespace strobe::cli
