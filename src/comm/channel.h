// Lines of JSON over TCP: how ranks talk beside the collectives. peers.cpp calls.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/json.h"

namespace strobe::comm {

// One end of a connection. A message is small and is sent whole.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int descriptor);
  Channel(Channel&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), pending_(std::move(other.pending_)), ended_(other.ended_) {}
  Channel& operator=(Channel&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(pending_, other.pending_);
    std::swap(ended_, other.ended_);
    return *this;
  }
  ~Channel();

  bool send(const Json& message);          // false where the other end is gone
  std::optional<Json> next();              // what has come, without waiting
  std::optional<Json> next(double until);  // waits until that moment of the steady clock
  bool ended() const { return ended_; }    // the other end is gone, and all that it sent was handed out
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::string pending_;
  bool ended_ = false;
};

// Where rank 0 waits for the others.
class Listener {
 public:
  enum class Reach { this_host, any_host };
  // port 0: any that is free. Throws Error(runtime) where the port cannot be had.
  explicit Listener(Reach reach, int port = 0);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }
  std::optional<Channel> accept(double until);

 private:
  int descriptor_ = -1, port_ = 0;
};

// "192.0.2.7 10.0.0.1", those of this host that others may reach.
std::string own_addresses();

// Tries the addresses (names or numbers, separated by spaces) in turn until one answers. Nothing where none does.
std::optional<Channel> connect_to(const std::string& addresses, int port, double until);

}  // namespace strobe::comm
