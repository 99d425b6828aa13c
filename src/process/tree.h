// Finds parents and children of processes in /proc and sends signals to processes, for `launch` and `cases judge`.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "core/descriptor.h"

namespace strobe {

struct ProcessStat {
  pid_t parent = 0;
  long long started = 0;  // kernel ticks after boot
};

std::optional<ProcessStat> stat_of(pid_t process);  // nullopt: no such process

bool is_descendant(pid_t process, pid_t ancestor);

// Returns the running and zombie children of this process. Their pids cannot be reused before this process waits for
// them.
std::vector<pid_t> own_children();

// While an object of this class exists, orphaned descendants become children of this process instead of init's.
class ChildSubreaper {
 public:
  ChildSubreaper();
  ~ChildSubreaper();
  ChildSubreaper(const ChildSubreaper&) = delete;
  ChildSubreaper& operator=(const ChildSubreaper&) = delete;

  // Returns true for a child that existed before this object. A shell that starts a child and then replaces itself with
  // this program (exec) leaves such a child.
  bool had(pid_t child) const;

  // Kills and reaps all other children until none is left, including descendants that become orphans meanwhile. Only
  // this process waits for them, so no pid is reused in between. Returns how many are left after 10 s.
  std::size_t end_others() const;

 private:
  const std::vector<pid_t> earlier_;
};

// Identifies a process by its pidfd. On kernels without pidfds, identifies it by pid and start time, and checks both
// before each signal.
class ProcessHandle {
 public:
  // Returns the process that connected this Unix socket, according to the kernel.
  static ProcessHandle of_peer(int socket);

  explicit operator bool() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }  // only for comparison; signals go through send()
  bool send(int signal) const;        // false: the process has ended

 private:
  pid_t pid_ = 0;
  Descriptor descriptor_;
  long long started_ = 0;  // kernel ticks after boot
};

}  // namespace strobe
