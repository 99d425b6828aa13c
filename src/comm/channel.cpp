// Sockets, with a limit to every wait.
#include "comm/channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

#include "core/clock.h"
#include "core/fail.h"

namespace strobe::comm {
namespace {

constexpr std::size_t kLongestMessage = 1 << 20;

int milliseconds_until(double until) {
  const double left = until - now_seconds();
  return left <= 0 ? 0 : static_cast<int>(std::min(left, 1e5) * 1000) + 1;
}

bool wait_for(int descriptor, short events, double until) {
  for (;;) {
    pollfd entry{.fd = descriptor, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, milliseconds_until(until));
    if (ready > 0) return true;
    if (ready == 0 && now_seconds() >= until) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// Connects within a few seconds, or -1.
int try_connect(const addrinfo& address, double until) {
  const int descriptor = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  const int status = connect(descriptor, address.ai_addr, address.ai_addrlen);
  int error = status == 0 ? 0 : errno;
  if (error == EINPROGRESS && wait_for(descriptor, POLLOUT, std::min(until, now_seconds() + 3))) {
    socklen_t size = sizeof(error);
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return descriptor;
  close(descriptor);
  return -1;
}

}  // namespace

Channel::Channel(int descriptor) : descriptor_(descriptor) {
  const int on = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

Channel::~Channel() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Channel::send(const Json& message) {
  const std::string line = message.dump() + "\n";
  const double until = now_seconds() + 2;  // a peer that does not read any more is found out by its silence
  for (std::string_view left = line; !left.empty();) {
    const ssize_t sent = ::send(descriptor_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno == EAGAIN && wait_for(descriptor_, POLLOUT, until)) continue;
    if (sent < 0 && errno != EINTR) return false;
  }
  return true;
}

std::optional<Json> Channel::next() {
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      try {
        return Json::parse(line);
      } catch (const Error&) {  // not one of ours
        ended_ = true;
      }
    }
    if (ended_) return std::nullopt;
    char block[4096];
    const ssize_t got = recv(descriptor_, block, sizeof(block), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got <= 0 || pending_.size() > kLongestMessage) {
      ended_ = true;
      return std::nullopt;
    }
    pending_.append(block, static_cast<std::size_t>(got));
  }
}

std::optional<Json> Channel::next(double until) {
  for (;;) {
    std::optional<Json> message = next();
    if (message || ended_ || !wait_for(descriptor_, POLLIN, until)) return message;
  }
}

Listener::Listener(Reach reach, int port) {
  descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(reach == Reach::this_host ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (descriptor_ < 0 || bind(descriptor_, plain, size) != 0 || listen(descriptor_, 1024) != 0 ||
      getsockname(descriptor_, plain, &size) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    fail(ErrorCode::runtime, "rank 0 cannot listen on port {}: {}", port, std::strerror(error));
  }
  port_ = ntohs(address.sin_port);
}

Listener::~Listener() { close(descriptor_); }

std::optional<Channel> Listener::accept(double until) {
  while (wait_for(descriptor_, POLLIN, until)) {
    const int descriptor = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor >= 0) return Channel(descriptor);
  }
  return std::nullopt;
}

std::string own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::string text;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) || !(entry->ifa_flags & IFF_UP)) continue;
    char number[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, number, sizeof(number));
    text += (text.empty() ? "" : " ") + std::string(number);
  }
  freeifaddrs(list);
  return text;
}

std::optional<Channel> connect_to(const std::string& addresses, int port, double until) {
  do {
    std::istringstream words(addresses);
    for (std::string name; words >> name;) {
      addrinfo hints{};
      hints.ai_family = AF_INET;
      hints.ai_socktype = SOCK_STREAM;
      addrinfo* found = nullptr;
      if (getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) continue;
      int descriptor = -1;
      for (const addrinfo* one = found; one && descriptor < 0; one = one->ai_next)
        descriptor = try_connect(*one, until);
      freeaddrinfo(found);
      if (descriptor >= 0) return Channel(descriptor);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 0 may not be there yet
  } while (now_seconds() < until);
  return std::nullopt;
}

}  // namespace strobe::comm
