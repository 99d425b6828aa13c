// Unix sockets that carry small messages and, once, two descriptors.
#include "cli/launch_socket.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

struct Address {
  sockaddr_un value{};
  socklen_t size;

  explicit Address(std::string_view name) {
    if (name.empty() || name.size() > sizeof(value.sun_path) - 1)
      fail(ErrorCode::invalid_argument, "launch: \"{}\": not the name of a socket", printable(name));
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, name.data(), name.size());  // the first byte is 0: no file
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* plain() const { return reinterpret_cast<const sockaddr*>(&value); }
};

int make_socket() {
  const int descriptor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail(ErrorCode::runtime, "launch: no socket: {}", std::strerror(errno));
  return descriptor;
}

constexpr std::size_t kStreams = 2;

}  // namespace

std::string random_word() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) fail(ErrorCode::runtime, "launch: no random bytes");
  return fmt::format("{:016x}", random);
}

int listen_for_ranks(const std::string& name) {
  const Address address(name);
  const int descriptor = make_socket();
  if (bind(descriptor, address.plain(), address.size) != 0 || listen(descriptor, 1024) != 0) {
    const int error = errno;
    close(descriptor);
    fail(ErrorCode::runtime, "launch: the ranks' socket: {}", std::strerror(error));
  }
  return descriptor;
}

int connect_to_launcher(std::string_view name) {
  const Address address(name);
  const int descriptor = make_socket();
  if (connect(descriptor, address.plain(), address.size) != 0) {
    const int error = errno;
    close(descriptor);
    fail(ErrorCode::runtime, "launch: the launcher is not there: {}", std::strerror(error));
  }
  return descriptor;
}

pid_t process_behind(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

namespace {

// A byte, and room for descriptors.
struct StreamsMessage {
  using Streams = std::array<int, kStreams>;
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(Streams))] = {};
  msghdr message{};

  StreamsMessage() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof(room);
  }
  StreamsMessage(const StreamsMessage&) = delete;
  StreamsMessage& operator=(const StreamsMessage&) = delete;
};

}  // namespace

bool send_streams(int socket) {
  const int streams[kStreams] = {STDOUT_FILENO, STDERR_FILENO};
  StreamsMessage sent;
  cmsghdr* header = CMSG_FIRSTHDR(&sent.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(streams));
  std::memcpy(CMSG_DATA(header), streams, sizeof(streams));
  return sendmsg(socket, &sent.message, MSG_NOSIGNAL) == 1;
}

std::optional<std::array<int, 2>> receive_streams(int socket) {
  StreamsMessage received;
  if (recvmsg(socket, &received.message, MSG_CMSG_CLOEXEC) != 1) return std::nullopt;
  const cmsghdr* header = CMSG_FIRSTHDR(&received.message);
  if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(StreamsMessage::Streams)))
    return std::nullopt;
  StreamsMessage::Streams streams{};
  std::memcpy(streams.data(), CMSG_DATA(header), sizeof(streams));
  return streams;
}

bool send_news(int socket, const RankNews& news) {
  return send(socket, &news, sizeof(news), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(news));
}

std::optional<RankNews> receive_news(int socket) {
  RankNews news{};
  ssize_t got;
  while ((got = recv(socket, &news, sizeof(news), 0)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof(news))) return std::nullopt;
  return news;
}

}  // namespace strobe::cli
