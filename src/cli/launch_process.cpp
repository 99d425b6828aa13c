#include "cli/launch_process.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#ifndef SO_PEERPIDFD  // Linux 6.5
#define SO_PEERPIDFD 77
#endif

namespace strobe::cli {
namespace {

struct Stat {
  pid_t parent = 0;
  long long started = 0;
};

// Fields 4 and 22 of /proc/PID/stat, counted after the name, which may contain anything but ends at the last ')'.
std::optional<Stat> stat_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  Stat stat;
  fields >> skipped >> stat.parent;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  if (!(fields >> stat.started)) return std::nullopt;
  return stat;
}

}  // namespace

ProcessHandle ProcessHandle::of_peer(int socket) {
  ProcessHandle handle;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return handle;
  size = sizeof(handle.descriptor_);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &handle.descriptor_, &size) != 0)
    handle.descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  const std::optional<Stat> stat = stat_of(peer.pid);
  if (!stat) return handle;
  handle.pid_ = peer.pid;
  handle.started_ = stat->started;
  return handle;
}

ProcessHandle::~ProcessHandle() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool ProcessHandle::send(int signal) const {
  if (pid_ <= 0) return false;
  if (descriptor_ >= 0) return syscall(SYS_pidfd_send_signal, descriptor_, signal, nullptr, 0) == 0;
  const std::optional<Stat> stat = stat_of(pid_);
  return stat && stat->started == started_ && kill(pid_, signal) == 0;
}

bool is_descendant(pid_t process, pid_t ancestor) {
  constexpr int kMostGenerations = 64;
  for (int i = 0; i < kMostGenerations && process > 1; ++i) {
    const std::optional<Stat> stat = stat_of(process);
    if (!stat) return false;
    process = stat->parent;
    if (process == ancestor) return true;
  }
  return false;
}

std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  DIR* const folder = opendir("/proc");
  if (!folder) return children;
  while (const dirent* entry = readdir(folder)) {
    const pid_t process = atoi(entry->d_name);
    if (process <= 0) continue;
    const std::optional<Stat> stat = stat_of(process);
    if (stat && stat->parent == getpid()) children.push_back(process);
  }
  closedir(folder);
  return children;
}

}  // namespace strobe::cli
