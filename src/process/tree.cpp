// Finds parents and children of processes in /proc, and signals processes through pidfds where the kernel has them.
#include "process/tree.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "core/clock.h"
#include "core/file_names.h"

#ifndef SO_PEERPIDFD  // Linux 6.5
#define SO_PEERPIDFD 77
#endif

namespace strobe {
namespace {

// Kills a process. If that process is in another session than this one, also kills its process group, which then
// contains only descendants. One signal to the group also ends a group that keeps forking.
void kill_with_group(pid_t process) {
  if (getsid(process) > 0 && getsid(process) != getsid(0)) kill(-getpgid(process), SIGKILL);
  kill(process, SIGKILL);
}

}  // namespace

// Reads fields 4 and 22 of /proc/PID/stat. Starts after the last ')', which ends the process name (field 2), because
// the name may contain any character.
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

std::size_t ChildSubreaper::end_others() const {
  constexpr double kPatience = 10;  // seconds
  const double deadline = now_seconds() + kPatience;
  for (;;) {
    std::vector<pid_t> left = own_children();
    std::erase_if(left, [&](pid_t one) { return had(one); });
    if (left.empty() || now_seconds() > deadline) return left.size();
    for (const pid_t process : left) {
      kill_with_group(process);
      waitpid(process, nullptr, WNOHANG);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ProcessHandle ProcessHandle::of_peer(int socket) {
  ProcessHandle handle;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return handle;
  int descriptor = -1;
  size = sizeof(descriptor);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) != 0)
    descriptor = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  handle.descriptor_.reset(descriptor);
  const std::optional<ProcessStat> stat = stat_of(peer.pid);
  if (!stat) return handle;
  handle.pid_ = peer.pid;
  handle.started_ = stat->started;
  return handle;
}

bool ProcessHandle::send(int signal) const {
  if (pid_ <= 0) return false;
  if (descriptor_) return syscall(SYS_pidfd_send_signal, descriptor_.get(), signal, nullptr, 0) == 0;
  const std::optional<ProcessStat> stat = stat_of(pid_);
  return stat && stat->started == started_ && kill(pid_, signal) == 0;
}

}  // namespace strobe
