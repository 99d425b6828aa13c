#include "process/tree.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "core/file_names.h"

namespace strobe {

// Fields 4 and 22 of /proc/PID/stat, counted after the name, which may contain anything but ends at the last ')'.
std::optional<ProcessStat> stat_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  ProcessStat stat;
  fields >> skipped >> stat.parent;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  if (!(fields >> stat.started)) return std::nullopt;
  return stat;
}

bool is_descendant(pid_t process, pid_t ancestor) {
  constexpr int kMostGenerations = 64;
  for (int i = 0; i < kMostGenerations && process > 1; ++i) {
    const std::optional<ProcessStat> stat = stat_of(process);
    if (!stat) return false;
    process = stat->parent;
    if (process == ancestor) return true;
  }
  return false;
}

std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  std::error_code ignored;
  for (const std::string& name : file_names("/proc", ignored)) {
    pid_t process = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (code != std::errc() || *end != '\0') continue;
    const std::optional<ProcessStat> stat = stat_of(process);
    if (stat && stat->parent == getpid()) children.push_back(process);
  }
  return children;
}

ChildSubreaper::ChildSubreaper() : earlier_(own_children()) { prctl(PR_SET_CHILD_SUBREAPER, 1); }

ChildSubreaper::~ChildSubreaper() { prctl(PR_SET_CHILD_SUBREAPER, 0); }

bool ChildSubreaper::had(pid_t child) const {
  return std::find(earlier_.begin(), earlier_.end(), child) != earlier_.end();
}

}  // namespace strobe
