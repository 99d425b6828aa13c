// Accepts, authenticates and polls the supervisors of a job's ranks.
#include "cli/launch/supervisors.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/clock.h"
#include "core/fail.h"
#include "process/tree.h"

namespace strobe::cli {
namespace {

constexpr double kIntroductionLimit = 5;       // seconds for a connection to introduce itself
constexpr std::size_t kSpareConnections = 64;  // connections without introduction that are kept beyond one per rank

}  // namespace

Supervisors::Supervisors(const std::string& socket_path, std::string token, int ranks, int master_listener)
    : token_(std::move(token)),
      ranks_(ranks),
      master_listener_(master_listener),
      listener_(listen_for_supervisors(socket_path)) {
  fcntl(listener_, F_SETFL, fcntl(listener_, F_GETFL) | O_NONBLOCK);
}

Supervisors::~Supervisors() {
  for (const Pending& one : pending_) close(one.socket);
  for (const Member& one : members_) close(one.socket);
  close(listener_);
}

std::vector<Supervisors::Event> Supervisors::wait(int other, int milliseconds) {
  std::vector<pollfd> entries{{.fd = listener_, .events = POLLIN, .revents = 0},
                              {.fd = other, .events = POLLIN, .revents = 0}};
  for (const Member& one : members_) entries.push_back({.fd = one.socket, .events = POLLIN, .revents = 0});
  for (const Pending& one : pending_) entries.push_back({.fd = one.socket, .events = POLLIN, .revents = 0});
  std::vector<Event> events;
  if (poll(entries.data(), entries.size(), milliseconds) > 0) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (entries[2 + i].revents) events.push_back({members_[i].rank, receive_status(members_[i].socket)});
    }
    for (const Event& event : events) {
      if (event.status) continue;
      const auto gone =
          std::find_if(members_.begin(), members_.end(), [&](auto& one) { return one.rank == event.rank; });
      close(gone->socket);
      members_.erase(gone);
    }
    accept_pending();
  }
  std::erase_if(pending_, [&](const Pending& one) { return try_join(one); });
  close_late();
  return events;
}

void Supervisors::accept_pending() {
  for (;;) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE))
      fail(ErrorCode::runtime, "launch: cannot accept the connection of a rank: {}", std::strerror(errno));
    if (socket < 0) return;
    if (!is_own_user(socket)) {
      close(socket);
      continue;
    }
    pending_.push_back({.socket = socket, .until = now_seconds() + kIntroductionLimit});
    if (pending_.size() <= static_cast<std::size_t>(ranks_) + kSpareConnections) continue;
    close(pending_.front().socket);  // the oldest connection without introduction
    pending_.erase(pending_.begin());
  }
}

void Supervisors::close_late() {
  const double now = now_seconds();
  std::erase_if(pending_, [&](const Pending& one) {
    if (one.until > now) return false;
    close(one.socket);
    return true;
  });
}

bool Supervisors::try_join(const Pending& pending) {
  const ReceivedIntroduction received = receive_introduction(pending.socket);
  if (!received.value && !received.hung_up) return false;
  ProcessHandle process = received.value ? ProcessHandle::of_peer(pending.socket) : ProcessHandle();
  const int rank = received.value ? received.value->rank : -1;
  const bool joins = received.value && is_genuine(*received.value, process) &&
                     send_descriptors(pending.socket, {.output = STDOUT_FILENO,
                                                       .errors = STDERR_FILENO,
                                                       .listener = rank == 0 ? master_listener_ : -1});
  if (joins) {
    members_.push_back({.rank = rank, .socket = pending.socket, .process = std::move(process)});
    ++accepted_;
  } else {
    close(pending.socket);
  }
  return true;
}

bool Supervisors::is_genuine(const Introduction& introduction, const ProcessHandle& process) const {
  const std::string_view token(introduction.token.data(), introduction.token.size());
  if (!equal_in_constant_time(token, token_)) return false;
  const int rank = introduction.rank;
  if (rank < 0 || rank >= ranks_) return false;
  if (std::any_of(members_.begin(), members_.end(), [&](const Member& one) { return one.rank == rank; })) return false;
  return process && is_descendant(process.pid(), mpirun_);
}

bool Supervisors::holds(pid_t process) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& one) { return one.process.pid() == process; });
}

void Supervisors::signal_rank(int rank, int signal) const {
  for (const Member& one : members_) {
    if (one.rank == rank) send_signal(one.socket, signal);
  }
}

void Supervisors::signal_ranks(int signal) const {
  for (const Member& one : members_) send_signal(one.socket, signal);
}

void Supervisors::signal_supervisors(int signal) const {
  for (const Member& one : members_) one.process.send(signal);
}

}  // namespace strobe::cli
