// Messages over a SOCK_SEQPACKET socket, which keeps message boundaries. A message of an unexpected size is malformed.
// The message that passes descriptors is checked by its control data; its bytes after the first are ignored.
#include "cli/launch/socket.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

sockaddr_un address_of(std::string_view path) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    fail(ErrorCode::invalid_argument, "launch: \"{}\": a socket path must have 1 to {} bytes", printable(path),
         sizeof(address.sun_path) - 1);
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* plain(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

int make_socket() {
  const int descriptor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail(ErrorCode::runtime, "launch: cannot create a socket: {}", std::strerror(errno));
  return descriptor;
}

template <class Message>
bool send_message(int socket, const Message& message, int flags = 0) {
  ssize_t sent;
  while ((sent = send(socket, &message, sizeof(message), MSG_NOSIGNAL | flags)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(sizeof(message));
}

// With MSG_TRUNC, recv() returns the full length of a message that is too long.
template <class Message>
ssize_t receive_message(int socket, Message& message, int flags = 0) {
  ssize_t got;
  while ((got = recv(socket, &message, sizeof(message), MSG_TRUNC | flags)) < 0 && errno == EINTR) {
  }
  return got;
}

constexpr std::size_t kMostDescriptors = 3;

struct DescriptorMessage {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char room[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};

  explicit DescriptorMessage(std::size_t count) {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;
};

}  // namespace

int listen_for_supervisors(const std::string& path) {
  const sockaddr_un address = address_of(path);
  const int descriptor = make_socket();
  if (bind(descriptor, plain(address), sizeof(address)) != 0 || listen(descriptor, 1024) != 0) {
    const int error = errno;
    close(descriptor);
    fail(ErrorCode::runtime, "launch: cannot listen on the socket for the ranks: {}", std::strerror(error));
  }
  return descriptor;
}

int connect_to_launcher(std::string_view path) {
  const sockaddr_un address = address_of(path);
  const int descriptor = make_socket();
  if (connect(descriptor, plain(address), sizeof(address)) != 0) {
    const int error = errno;
    close(descriptor);
    fail(ErrorCode::runtime, "launch: cannot connect to the launcher: {}", std::strerror(error));
  }
  return descriptor;
}

bool is_own_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

bool send_introduction(int socket, std::string_view token, int rank) {
  Introduction introduction{};
  if (token.size() != introduction.token.size()) return false;
  std::memcpy(introduction.token.data(), token.data(), token.size());
  introduction.rank = rank;
  return send_message(socket, introduction);
}

ReceivedIntroduction receive_introduction(int socket) {
  Introduction introduction{};
  const ssize_t got = receive_message(socket, introduction, MSG_DONTWAIT);
  if (got == static_cast<ssize_t>(sizeof(introduction))) return {.value = introduction};
  return {.value = std::nullopt, .hung_up = !(got < 0 && errno == EAGAIN)};
}

bool send_descriptors(int socket, const RankDescriptors& descriptors) {
  const int sent[] = {descriptors.output, descriptors.errors, descriptors.listener};
  const std::size_t count = descriptors.listener < 0 ? 2 : 3;
  DescriptorMessage message(count);
  cmsghdr* header = CMSG_FIRSTHDR(&message.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), sent, count * sizeof(int));
  return sendmsg(socket, &message.message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

std::optional<RankDescriptors> receive_descriptors(int socket) {
  DescriptorMessage message(kMostDescriptors);
  ssize_t got;
  while ((got = recvmsg(socket, &message.message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&message.message) : nullptr;
  if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return std::nullopt;
  int received[] = {-1, -1, -1};
  if (header->cmsg_len != CMSG_LEN(2 * sizeof(int)) && header->cmsg_len != CMSG_LEN(3 * sizeof(int)))
    return std::nullopt;
  std::memcpy(received, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
  return RankDescriptors{.output = received[0], .errors = received[1], .listener = received[2]};
}

bool send_status(int socket, const RankStatus& status) { return send_message(socket, status); }

std::optional<RankStatus> receive_status(int socket) {
  RankStatus status{};
  if (receive_message(socket, status) != static_cast<ssize_t>(sizeof(status))) return std::nullopt;
  const int kind = static_cast<int>(status.kind);
  if (kind < 0 || kind > static_cast<int>(RankStatus::Kind::ended)) return std::nullopt;
  return status;
}

bool send_signal(int socket, int signal) { return send_message(socket, signal, MSG_DONTWAIT); }

std::optional<int> receive_signal(int socket) {
  int signal = 0;
  if (receive_message(socket, signal) != static_cast<ssize_t>(sizeof(signal))) return std::nullopt;
  if (signal <= 0 || signal >= NSIG) return std::nullopt;
  return signal;
}

}  // namespace strobe::cli
