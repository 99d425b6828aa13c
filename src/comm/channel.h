// Control connections between ranks: one JSON message per line over TCP.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "core/json.h"

namespace strobe::comm {

inline constexpr std::size_t kLongestLine = 1 << 20;  // maximum bytes per message

// One end of a connection. send() blocks until the whole message is sent.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int descriptor, std::size_t longest = kLongestLine);
  Channel(Channel&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        longest_(other.longest_),
        pending_(std::move(other.pending_)),
        ended_(other.ended_),
        malformed_(other.malformed_) {}
  Channel& operator=(Channel&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(longest_, other.longest_);
    std::swap(pending_, other.pending_);
    std::swap(ended_, other.ended_);
    std::swap(malformed_, other.malformed_);
    return *this;
  }
  ~Channel();

  bool send(const Json& message);          // returns false if the peer has disconnected or does not read for 2 s
  std::optional<Json> next();              // nullopt if no complete message has arrived
  std::optional<Json> next(double until);  // waits at most until this time of the steady clock
  void set_longest(std::size_t bytes) { longest_ = bytes; }
  // Stops reading. The caller calls this after a malformed message.
  void refuse() { ended_ = malformed_ = true; }
  bool ended() const { return ended_; }          // next() will return no more messages
  bool malformed() const { return malformed_; }  // ended because of invalid data
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::size_t longest_ = kLongestLine;
  std::string pending_;
  bool ended_ = false, malformed_ = false;
};

inline constexpr const char* kLoopback = "127.0.0.1";
inline constexpr const char* kAllInterfaces = "0.0.0.0";

// Rank 0's listening socket.
class Listener {
 public:
  // `address` must be a numeric IPv4 address. Port 0 selects any free port. Throws Error(runtime).
  explicit Listener(const std::string& address, int port = 0);
  // Takes over a descriptor inherited from the launcher. Throws Error(runtime) unless it listens on this port.
  static Listener adopt(int descriptor, int port);
  Listener(Listener&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_) {}
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }
  int descriptor() const { return descriptor_; }
  std::optional<Channel> accept(std::size_t longest);  // nullopt if no connection is pending

 private:
  Listener() = default;
  int descriptor_ = -1, port_ = 0;
};

// Returns the IPv4 addresses, such as "192.0.2.7 10.0.0.1", at which ranks reach this host's socket that listens on
// `address`. For a socket that listens on all interfaces, From::this_host puts loopback first and From::other_hosts
// omits it. For a socket on one interface, loopback is always omitted, because another user might listen there on the
// same port.
enum class From { this_host, other_hosts };
std::string addresses_of_listener(const std::string& address, From from);

// Returns the IPv4 address of an interface by its name, or the address itself if this host has it. Otherwise throws
// Error(invalid_argument) with the valid names.
std::string address_of_interface(const std::string& interface);

// Resolves `name` and returns the first address that a non-loopback interface of this host has; empty if none has one.
std::string own_address_of(const std::string& name);

// Returns the milliseconds until a time of the steady clock, rounded up, as a timeout for poll().
int milliseconds_until(double until);

// Tries once to connect to each IPv4 address of a host name or number. Returns nullopt if none accepts.
std::optional<Channel> connect_once(const std::string& address, int port, double until);

}  // namespace strobe::comm
