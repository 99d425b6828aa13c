// Parents and children of processes, from /proc. `launch` and `cases judge` call.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

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

  // True for a child that this process had before: one of the shell that became this program by exec.
  bool had(pid_t child) const;

 private:
  const std::vector<pid_t> earlier_;
};

}  // namespace strobe
