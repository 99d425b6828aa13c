// The handshake: ranks connect to rank 0's listening socket and authenticate each other with the job's token. peers.cpp
// uses it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/channel.h"
#include "comm/peer_messages.h"
#include "comm/world.h"

namespace strobe::comm {

// An authenticated rank.
struct Guest {
  Presentation presentation;
  Channel channel;
};

// Rank 0's side. Serves all connections concurrently. Closes connections that are silent, malformed or lack the token,
// so they delay no rank. Keeps at most world.size + 64 unauthenticated connections and closes the oldest.
class Reception {
 public:
  Reception(Listener& listener, const World& world);

  // Returns the ranks authenticated since the last call. Waits for at least one, but not longer than until `until`.
  std::vector<Guest> wait(double until);

 private:
  struct Stranger {  // a connection that has not authenticated yet
    Channel channel;
    double until;
    std::string greeting_nonce, own_nonce;  // empty until the greeting has arrived
  };

  void accept_all();
  std::optional<Guest> hear(Stranger& stranger);
  bool challenge(Stranger& stranger, const std::optional<Greeting>& greeting) const;
  bool is_proved(const Stranger& stranger, const Presentation& presentation) const;

  Listener& listener_;
  const World& world_;
  std::vector<Stranger> strangers_;
};

// Rank 0's address, and time limits of the handshake.
struct Meeting {
  std::string addresses;  // separated by spaces
  int port = 0;
  double until = 0;      // on the clock of core/clock.h
  double patience = 30;  // seconds to wait for an answer, and to retry after a listener has sent a wrong proof
};

// The other ranks' side: connects, checks that rank 0 knows the token, and presents this rank. Cycles through the
// addresses until the time `until`. Throws Error(runtime).
Channel join_rank_0(const World& world, Presentation presentation, const Meeting& meeting);

}  // namespace strobe::comm
