#include "process/handle.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "process/tree.h"

#ifndef SO_PEERPIDFD  // Linux 6.5
#define SO_PEERPIDFD 77
#endif

namespace strobe {

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
