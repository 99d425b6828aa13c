// How ranks find each other at rank 0's listening socket and prove to each other that they belong to one job.
// peers.cpp calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/channel.h"
#include "comm/peer_messages.h"
#include "comm/world.h"

namespace strobe::comm {

// A rank that has proved itself.
struct Guest {
  Presentation presentation;
  Channel channel;
};

// Rank 0's side. Handles all connections at once; one that is silent, malformed or without the token is closed and
// delays no rank. At most one connection per rank and 64 more are open without a proof.
class Reception {
 public:
  Reception(Listener& listener, const World& world);

  // Ranks that have proved themselves since the last call; waits for one until that moment.
  std::vector<Guest> wait(double until);

 private:
  struct Stranger {
    Channel channel;
    double until;
    std::string greeting_nonce, own_nonce;  // empty before its greeting
  };

  void accept_all();
  std::optional<Guest> hear(Stranger& stranger);
  bool challenge(Stranger& stranger, const std::optional<Greeting>& greeting) const;
  bool is_proved(const Stranger& stranger, const Presentation& presentation) const;

  Listener& listener_;
  const World& world_;
  std::vector<Stranger> strangers_;
};

// The other ranks' side: connects, checks that rank 0 knows the token, and presents this rank. Tries the addresses
// (separated by spaces) in turn until `until`. `patience`: seconds for an answer, and for retries after a false one.
// Throws Error(runtime).
struct Meeting {
  std::string addresses;
  int port = 0;
  double until = 0, patience = 30;
};
Channel join_rank_0(const World& world, Presentation presentation, const Meeting& meeting);

}  // namespace strobe::comm
