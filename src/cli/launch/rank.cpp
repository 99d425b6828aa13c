// Implements the supervisor of a rank. mpirun starts the supervisor, which starts the rank. The supervisor forwards
// signals from the launcher and reports the rank's end. With RankOutput::prefixed it also copies the rank's output and
// prefixes each line with the rank number. The supervisor exits with 0 even if the rank failed, so that mpirun lets the
// other ranks finish.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "app/program.h"
#include "cli/launch/job.h"
#include "cli/launch/mpirun.h"
#include "cli/launch/rank_errors.h"
#include "cli/launch/socket.h"
#include "comm/world.h"
#include "core/fail.h"
#include "core/write_all.h"
#include "measure/quiet.h"
#include "process/spawn.h"

namespace strobe::cli {
namespace {

constexpr std::size_t kLongestLine = 1 << 16;  // bytes; longer lines are split
constexpr int kCannotExecute = 127;            // exit code of a rank whose program cannot be executed

// Copies one stream of the rank to the launcher's stream and prefixes each line with the rank number.
class Lines {
 public:
  Lines(int from, int to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {}

  int source() const { return ended_ ? -1 : from_; }
  int error() const { return error_; }  // errno of the first failed write; 0: none

  void copy() {
    char block[1 << 14];
    const ssize_t got = read(from_, block, sizeof(block));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      ended_ = true;
      return;
    }
    pending_.append(block, static_cast<std::size_t>(got));
    std::string whole;
    for (std::size_t end; (end = pending_.find('\n')) != std::string::npos; pending_.erase(0, end + 1))
      whole += prefix_ + pending_.substr(0, end + 1);
    put(whole);
    if (pending_.size() > kLongestLine) finish();
  }

  void finish() {
    if (!pending_.empty()) put(prefix_ + pending_ + "\n");
    pending_.clear();
  }

 private:
  void put(const std::string& text) {
    const int error = write_all(to_, text);
    if (error_ == 0) error_ = error;
  }

  int from_, to_;
  int error_ = 0;
  std::string prefix_, pending_;
  bool ended_ = false;
};

// The rank's process group. The mutex keeps send() from running after waitpid(), when the pid may be reused.
class RankProcess {
 public:
  explicit RankProcess(pid_t pid) : pid_(pid) {}

  void send(int signal) {
    const std::lock_guard lock(mutex_);
    if (!waited_) kill(-pid_, signal);
  }

  bool has_ended() {
    const std::lock_guard lock(mutex_);
    waited_ = waited_ || waitpid(pid_, &status_, WNOHANG) != 0;
    return waited_;
  }

  int status() const { return status_; }

 private:
  const pid_t pid_;
  std::mutex mutex_;
  bool waited_ = false;
  int status_ = 0;
};

// Forwards signals in a separate thread, because the supervisor may block in a write while no process reads its output.
void obey_launcher(int launcher, const std::shared_ptr<RankProcess>& rank) {
  std::thread([launcher, rank] {
    while (const std::optional<int> signal = receive_signal(launcher)) rank->send(*signal);
    rank->send(SIGKILL);  // the connection has ended: the launcher is gone
  }).detach();
}

// Restricts the rank to its share of the cores if there is at least one core per rank. Otherwise sets STROBE_THREADS to
// 1 and lets the scheduler place the ranks, which makes collectives on large vectors faster. The supervisor itself
// keeps all cores of the job, so that CoresOfParent (measure/quiet.h) can find them.
void keep_to_own_cores(const comm::World& world) {
  const std::vector<int> cores = allowed_cores();
  const auto size = static_cast<std::size_t>(world.size), rank = static_cast<std::size_t>(world.rank);
  if (cores.size() < size) setenv("STROBE_THREADS", "1", 0);
  if (size == 0 || cores.size() < size) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::size_t i = rank * cores.size() / size; i < (rank + 1) * cores.size() / size; ++i)
    CPU_SET(static_cast<std::size_t>(cores[i]), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

struct RankStart {
  const std::vector<std::string>& command;
  const comm::World& world;
  int output, errors;
  int listener;  // listening socket of MASTER_PORT; -1: none
};

pid_t start_rank(const RankStart& start) {
  const auto prepare = [&] {
    keep_to_own_cores(start.world);
    if (start.listener >= 0) {
      fcntl(start.listener, F_SETFD, 0);
      setenv(comm::kListenerVariable, std::to_string(start.listener).c_str(), 1);
    }
    if (start.command[0] == this_program()) pass_launchers_file_on();
  };
  return spawn(start.command, {.output = start.output,
                               .errors = start.errors,
                               .others = SpawnOptions::Others::inherited,
                               .before_exec = prepare});
}

struct Launcher {
  int socket;
  RankDescriptors descriptors;
};

Launcher join_launcher(std::string_view socket_path, int rank) {
  const char* const variable = getenv(kLaunchToken);
  const std::string token = variable ? variable : "";
  unsetenv(kLaunchToken);
  remove_loopback_library();
  const int socket = connect_to_launcher(socket_path);
  send_introduction(socket, token, rank);
  const auto descriptors = receive_descriptors(socket);
  if (!descriptors) fail(ErrorCode::runtime, "launch: rank {}: the launcher does not accept this process", rank);
  return {socket, *descriptors};
}

// Copies the rank's output until the rank has ended and all output is copied.
void copy_lines(Lines (&streams)[2], pid_t child, RankProcess& rank) {
  // Readable once the rank has ended. -1 on old kernels: the loop then checks every 20 ms.
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  for (bool running = true; running;) {
    pollfd entries[] = {{.fd = streams[0].source(), .events = POLLIN, .revents = 0},
                        {.fd = streams[1].source(), .events = POLLIN, .revents = 0},
                        {.fd = ended, .events = POLLIN, .revents = 0}};
    poll(entries, 3, ended < 0 ? 20 : -1);
    running = !rank.has_ended();
    for (Lines& one : streams) {
      pollfd entry{.fd = one.source(), .events = POLLIN, .revents = 0};
      while (poll(&entry, 1, 0) > 0) {
        one.copy();
        entry.fd = one.source();
        if (running) break;
      }
      if (!running) one.finish();
    }
  }
}

}  // namespace

int run_rank(std::string_view socket_path, RankOutput output, const std::vector<std::string>& command) {
  const comm::World world = comm::this_world();
  const auto [launcher, given] = join_launcher(socket_path, world.rank);
  const bool prefixed = output == RankOutput::prefixed;
  const std::string prefix = prefixed ? "[" + std::to_string(world.rank) + "] " : "";
  Pipe out, errors;
  const RankStart start{.command = command,
                        .world = world,
                        .output = prefixed ? out.write.get() : given.output,
                        .errors = prefixed ? errors.write.get() : given.errors,
                        .listener = given.listener};
  pid_t child = -1;
  try {
    child = start_rank(start);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    write_all(given.errors, prefix + error.what() + "\n");
    send_status(launcher, {RankStatus::Kind::started, 0});
    send_status(launcher, {RankStatus::Kind::ended, kCannotExecute << 8});
    return kFine;
  }
  out.write.reset();
  errors.write.reset();
  if (given.listener >= 0) close(given.listener);
  send_status(launcher, {RankStatus::Kind::started, 0});
  const auto rank = std::make_shared<RankProcess>(child);
  obey_launcher(launcher, rank);
  Lines streams[] = {{out.read.get(), given.output, prefix}, {errors.read.get(), given.errors, prefix}};
  copy_lines(streams, child, *rank);
  if (streams[0].error() != 0) send_status(launcher, {RankStatus::Kind::lost_output, streams[0].error()});
  send_status(launcher, {RankStatus::Kind::ended, rank->status()});
  return kFine;
}

}  // namespace strobe::cli
