// The launcher's connections to the supervisors of its ranks.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/launch/socket.h"
#include "process/tree.h"

namespace strobe::cli {

class Supervisors {
 public:
  // `master_listener` is sent to rank 0; -1: none. Throws Error(runtime).
  Supervisors(const std::string& socket_path, std::string token, int ranks, int master_listener);
  ~Supervisors();
  Supervisors(const Supervisors&) = delete;
  Supervisors& operator=(const Supervisors&) = delete;

  // Only descendants of mpirun are accepted as supervisors.
  void set_mpirun(pid_t mpirun) { mpirun_ = mpirun; }

  struct Event {
    int rank;
    std::optional<RankStatus> status;  // nullopt: the supervisor is gone
  };
  // Waits until a supervisor sends a message, `other` is readable, or the time is over. Accepts supervisors and closes
  // other connections. Throws Error(runtime) if descriptors run out.
  std::vector<Event> wait(int other, int milliseconds);

  int accepted() const { return accepted_; }  // supervisors accepted so far
  bool any_connected() const { return !members_.empty(); }
  bool holds(pid_t process) const;  // true if the process is a connected supervisor

  // Asks the supervisor to signal its rank's process group. The supervisor is the rank's parent, so the group id cannot
  // have been reused.
  void signal_rank(int rank, int signal) const;
  void signal_ranks(int signal) const;
  void signal_supervisors(int signal) const;

 private:
  struct Pending {  // a connection that is not authenticated yet
    int socket;
    double until;
  };
  struct Member {
    int rank;
    int socket;
    ProcessHandle process;
  };

  void accept_pending();
  void close_late();
  bool try_join(const Pending& pending);  // false: no introduction has arrived yet
  bool is_genuine(const Introduction& introduction, const ProcessHandle& process) const;

  std::string token_;
  int ranks_, master_listener_;
  int listener_;
  pid_t mpirun_ = -1;
  int accepted_ = 0;
  std::vector<Pending> pending_;
  std::vector<Member> members_;
};

}  // namespace strobe::cli
