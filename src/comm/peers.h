// Failure detection between ranks. After a handshake, every rank exchanges heartbeats with rank 0, which reports to all
// ranks any rank that died, hangs, aborted or left early. Heartbeats do not use the engine, so no rank waits forever
// for a lost rank.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/channel.h"
#include "comm/peer_messages.h"
#include "comm/world.h"

namespace strobe::comm {

struct Limits {
  double silence = 30;     // seconds without a message after which a rank counts as lost
  double operation = 600;  // seconds for one call, including the wait until all ranks have entered it
};

// Facts that must be equal on all ranks. Peers also compares the size of the world.
struct Facts {
  std::string build;        // revision of the program
  std::string fingerprint;  // set by the caller: model and options
};

class Peers {
 public:
  // For rank 0: waits until all others have connected and sends them `shared`. world.token must be the same on all
  // ranks.
  Peers(const World& world, const Facts& facts, const Limits& limits, Listener& listener, std::string shared);
  // For the other ranks: connects to rank 0 at one of `addresses`.
  Peers(const World& world, const Facts& facts, const Limits& limits, const std::string& addresses, int port);
  // Both constructors throw on every rank: Error(invalid_argument) if ranks differ, Error(runtime) if a rank is
  // missing.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  const std::string& shared() const { return shared_; }  // rank 0's text

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string failure() const;  // "rank 2 on HOST ended without a message"

  void entered(std::int64_t call) { calls_.store(call, std::memory_order_relaxed); }  // call number, from 1
  // Blocks until rank 0 has entered this call, a rank is lost, or the clock reaches `until`. On rank 0: announces its
  // entry to all ranks and returns.
  void await_rank_0(std::int64_t call, double until);
  // Returns the other ranks that have not entered this call as ", not reached by rank 2 on HOST"; empty if all have.
  std::string late_for(std::int64_t call) const;

  void give_up(const std::string& reason);  // reports this rank as failed to all ranks

  // Announces that this rank is done, and waits until all ranks are. Returns false if a rank is lost or the wait takes
  // longer than Limits::operation.
  bool leave();

 private:
  struct Member {  // a connected rank
    int rank;
    Channel channel;
    double heard = 0;  // time of its last message; initially the start of the thread
    bool left = false;
  };

  void greet(Listener& listener);
  std::string reason_to_refuse(const Presentation& other) const;  // empty: accepts it
  [[noreturn]] void refuse_all(const Refusal& refusal);
  void join(const std::string& addresses, int port);
  void start();
  void attend();  // body of the thread
  void attend_until_closed();
  void report_own_end();
  void hear(Member& member);
  void handle(Member& member, const Status& status);
  void beat();
  void check_members();
  void check_leaving();
  void send_all(const Json& message);
  void set_failure(const std::string& text);
  void lose(int rank, const std::string& why);
  void wake() const;
  std::string name_of_rank(int rank) const;

  World world_;
  Facts facts_;
  Limits limits_;
  std::string shared_;
  std::vector<std::string> hosts_;  // per rank
  std::vector<Member> members_;     // used only by thread_ once it has started
  int lost_ = -1;                   // rank that this process reported as lost; used only by thread_
  int wake_ = -1;                   // an eventfd
  std::thread thread_;

  std::atomic<bool> failed_{false}, leaving_{false}, closed_{false}, quit_{false};
  std::atomic<bool> beat_now_{false};
  std::atomic<std::int64_t> calls_{0};
  mutable std::mutex mutex_;       // guards the fields below
  std::condition_variable heard_;  // notified when calls_of_ or failure_ has changed
  std::string failure_;
  std::string reason_;                  // the reason passed to give_up(), until it is sent
  std::vector<std::int64_t> calls_of_;  // the last call that each rank is known to have entered
  std::vector<bool> left_;
};

}  // namespace strobe::comm
