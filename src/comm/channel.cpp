// Implements Channel and Listener on non-blocking TCP sockets, with a time limit for every wait.
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
#include <cstring>
#include <vector>

#include "comm/world.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::comm {

int milliseconds_until(double until) {
  const double left = until - now_seconds();
  return left <= 0 ? 0 : static_cast<int>(std::min(left, 1e5) * 1000) + 1;
}

namespace {

bool wait_for(int descriptor, short events, double until) {
  for (;;) {
    pollfd entry{.fd = descriptor, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, milliseconds_until(until));
    if (ready > 0) return true;
    if (ready == 0 && now_seconds() >= until) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// Returns a connected socket, or -1 if the connection fails or takes longer than 3 s.
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

struct Interface {
  std::string name, address;
  bool is_loopback;
};

std::vector<Interface> own_interfaces() {
  std::vector<Interface> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET || !(entry->ifa_flags & IFF_UP)) continue;
    char number[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, number, sizeof(number));
    interfaces.push_back({entry->ifa_name, number, (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  return interfaces;
}

struct AddressList {
  addrinfo* first = nullptr;
  AddressList(const std::string& name, const char* port) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(name.c_str(), port, &hints, &first) != 0) first = nullptr;
  }
  ~AddressList() {
    if (first) freeaddrinfo(first);
  }
  AddressList(const AddressList&) = delete;
  AddressList& operator=(const AddressList&) = delete;
};

}  // namespace

Channel::Channel(int descriptor, std::size_t longest) : descriptor_(descriptor), longest_(longest) {
  const int on = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

Channel::~Channel() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Channel::send(const Json& message) {
  const std::string line = message.dump() + "\n";
  const double until = now_seconds() + 2;  // a peer that does not read is later detected by its silence
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
    if (malformed_) return std::nullopt;
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      try {
        return Json::parse(line);
      } catch (const Error&) {
        refuse();
      }
    }
    if (pending_.size() > longest_) refuse();
    if (ended_) return std::nullopt;
    char block[4096];
    const ssize_t got = recv(descriptor_, block, sizeof(block), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got <= 0) {
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

Listener::Listener(const std::string& address, int port) {
  descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool is_number = inet_pton(AF_INET, address.c_str(), &bound.sin_addr) == 1;
  socklen_t size = sizeof(bound);
  auto* plain = reinterpret_cast<sockaddr*>(&bound);
  if (!is_number) errno = EINVAL;
  if (!is_number || descriptor_ < 0 || bind(descriptor_, plain, size) != 0 || listen(descriptor_, 1024) != 0 ||
      getsockname(descriptor_, plain, &size) != 0) {
    const int error = errno;
    if (descriptor_ >= 0) close(descriptor_);
    fail(ErrorCode::runtime, "rank 0 cannot listen on {} port {}: {}", printable(address), port, std::strerror(error));
  }
  port_ = ntohs(bound.sin_port);
}

Listener Listener::adopt(int descriptor, int port) {
  int listens = 0;
  socklen_t listens_size = sizeof(listens);
  sockaddr_in bound{};
  socklen_t size = sizeof(bound);
  if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || !listens ||
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size) != 0 || bound.sin_family != AF_INET ||
      ntohs(bound.sin_port) != port)
    fail(ErrorCode::runtime, "descriptor {} does not listen on port {}", descriptor, port);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  Listener listener;
  listener.descriptor_ = descriptor;
  listener.port_ = port;
  return listener;
}

Listener::~Listener() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::optional<Channel> Listener::accept(std::size_t longest) {
  const int descriptor = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  return Channel(descriptor, longest);
}

std::string addresses_of_listener(const std::string& address, From from) {
  if (address != kAllInterfaces) return address;
  std::string text = from == From::this_host ? kLoopback : "";
  for (const Interface& one : own_interfaces()) {
    if (!one.is_loopback) text += (text.empty() ? "" : " ") + one.address;
  }
  return text;
}

std::string address_of_interface(const std::string& interface) {
  std::string valid;
  for (const Interface& one : own_interfaces()) {
    if (one.name == interface || one.address == interface) return one.address;
    valid += fmt::format("{}{} ({})", valid.empty() ? "" : ", ", one.name, one.address);
  }
  fail(ErrorCode::invalid_argument, "{} is {}: not an interface of this host; valid: {}", kInterfaceVariable,
       printable_value(interface), valid);
}

std::string own_address_of(const std::string& name) {
  const std::vector<Interface> interfaces = own_interfaces();
  const AddressList found(name, nullptr);
  for (const addrinfo* one = found.first; one; one = one->ai_next) {
    char number[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ai_addr)->sin_addr, number, sizeof(number));
    for (const Interface& own : interfaces) {
      if (own.address == number && !own.is_loopback) return number;
    }
  }
  return "";
}

std::optional<Channel> connect_once(const std::string& address, int port, double until) {
  const AddressList found(address, std::to_string(port).c_str());
  for (const addrinfo* one = found.first; one; one = one->ai_next) {
    const int descriptor = try_connect(*one, until);
    if (descriptor >= 0) return Channel(descriptor);
  }
  return std::nullopt;
}

}  // namespace strobe::comm
