// Parents and children of processes, read from /proc, and signals to them. `launch` and `cases judge` use it.
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

std::optional<ProcessStat> stat_of(pid_t process);  // none: no such process

bool is_descendant(pid_t process, pid_t ancestor);

// Running and zombie children of this process. Their pids cannot be reused before it waits for them.
std::vector<pid_t> own_children();

// While it exists, orphaned descendants become children of this process instead of init's.
class ChildSubreaper {
 public:
  ChildSubreaper();
  ~ChildSubreaper();
  ChildSubreaper(const ChildSubreaper&) = delete;
  ChildSubreaper& operator=(const ChildSubreaper&) = delete;

  // True for a child that this process had before this object: one that the shell started before it became this program
  // by exec.
  bool had(pid_t child) const;

  // Kills and reaps all other children with their process groups until none is left: their orphans become children in
  // turn. Only this process waits for them, so no pid is reused before. Returns how many still run after 10 s.
  std::size_t end_others() const;

 private:
  const std::vector<pid_t> earlier_;
};

// Identifies a process by its pidfd. On kernels without pidfds: by its pid, which is checked before each signal.
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
