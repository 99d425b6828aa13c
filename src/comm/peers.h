// Who else is there: the handshake at the start, and news of ranks that die, hang, give up or leave. Ranks tell rank 0,
// rank 0 tells all; this works beside whatever moves the data, so that a wait for data never outlasts a dead peer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/channel.h"
#include "comm/world.h"

namespace strobe::comm {

struct Limits {
  double silence = 30;     // seconds without a sign of life after which a rank counts as lost
  double operation = 600;  // seconds for one call, during which the other ranks must come to it too
};

// What all ranks must agree on, beside the size of the world.
struct Facts {
  std::string build;        // of the program
  std::string fingerprint;  // the caller's: model, options, whatever must be the same
};

class Peers {
 public:
  // Rank 0: waits for all others. `shared` is a text for them.
  Peers(const World& world, const Facts& facts, const Limits& limits, Listener& listener, std::string shared);
  // The others. `addresses` and `port` are rank 0's.
  Peers(const World& world, const Facts& facts, const Limits& limits, const std::string& addresses, int port);
  // Both throw Error(invalid_argument) on every rank where ranks differ, Error(runtime) where one does not come.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  const std::string& shared() const { return shared_; }  // rank 0's text

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string failure() const;  // "rank 2 on HOST ended without a word"

  void entered(std::int64_t call) { calls_.store(call, std::memory_order_relaxed); }
  // Those that have not come to this call: ", not reached by rank 2 on HOST"; empty where all have.
  std::string late_for(std::int64_t call) const;

  void give_up(const std::string& reason);  // tells all that this rank is lost

  // Says that this rank needs nothing more, and waits for all others to say so. False where one was lost.
  bool leave();

 private:
  struct Member {  // a rank that this one is connected to
    int rank;
    Channel channel;
    double heard = 0;  // when; counts from the moment on that the thread is started
    bool left = false;
  };

  void greet(Listener& listener);
  void join(const std::string& addresses, int port);
  void start();
  void attend();  // the thread
  void tell_own_end();
  void hear(Member& member);
  void handle(Member& member, const Json& message);
  void beat();
  void check_members();
  void tell_all(const Json& message);
  void lose(int rank, const std::string& why);
  void wake() const;
  std::string name_of_rank(int rank) const;

  World world_;
  Facts facts_;
  Limits limits_;
  std::string shared_;
  std::vector<std::string> hosts_;  // of all ranks
  std::vector<Member> members_;     // the thread's, once it runs
  int lost_ = -1;                   // the rank that this one found lost; the thread's too
  int wake_ = -1;                   // an eventfd
  std::thread thread_;

  std::atomic<bool> failed_{false}, leaving_{false}, closed_{false}, quit_{false};
  std::atomic<std::int64_t> calls_{0};
  mutable std::mutex mutex_;  // of what is below
  std::string failure_;
  std::string reason_;                  // to give up for, not yet told
  std::vector<std::int64_t> calls_of_;  // the last call that each rank is known to have come to
  std::vector<bool> left_;
};

}  // namespace strobe::comm
