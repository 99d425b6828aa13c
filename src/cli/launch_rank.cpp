// The process around a rank: mpirun starts it, it starts the rank, passes its lines on under the rank's number, and
// tells the launcher how it ended. mpirun itself never sees a failure, and so leaves the other ranks time to say
// theirs.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/launch_job.h"
#include "cli/launch_refusals.h"
#include "cli/launch_socket.h"
#include "cli/this_program.h"
#include "comm/world.h"
#include "core/fail.h"
#include "core/write_all.h"
#include "measure/quiet.h"

namespace strobe::cli {
namespace {

constexpr std::size_t kLongestLine = 1 << 16;  // what is longer is cut into several

// One stream of the rank on its way to the launcher's.
class Lines {
 public:
  Lines(int from, int to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {}

  int source() const { return ended_ ? -1 : from_; }
  int error() const { return error_; }  // errno of the first line that could not be written; 0: none

  void pass_on() {
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

// Each rank its share of the cores, where there is at least one for each: what a rank starts counts them. Otherwise the
// system shares them out, which exchanges large vectors faster than ranks kept to a core each, and a rank is told of
// one.
void keep_to_own_cores(const comm::World& world) {
  const std::vector<int> cores = own_cores();
  const auto size = static_cast<std::size_t>(world.size), rank = static_cast<std::size_t>(world.rank);
  if (cores.size() < size) setenv("STROBE_THREADS", "1", 0);
  if (size == 0 || cores.size() < size) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::size_t i = rank * cores.size() / size; i < (rank + 1) * cores.size() / size; ++i)
    CPU_SET(static_cast<std::size_t>(cores[i]), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

[[noreturn]] void become(const std::vector<std::string>& command, int output, int errors, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setpgid(0, 0);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  if (command[0] == this_program()) pass_launchers_file_on();
  signal(SIGPIPE, SIG_DFL);
  execvp(words[0], words.data());
  const std::string line = "cannot start " + command[0] + ": " + std::strerror(errno) + "\n";
  write_all(STDERR_FILENO, line);
  _exit(127);
}

struct Ends {
  int read, write;
};
Ends make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::runtime, "launch: no pipe: {}", std::strerror(errno));
  return {ends[0], ends[1]};
}

}  // namespace

int run_rank(std::string_view socket_name, RankOutput output, const std::vector<std::string>& command) {
  const comm::World world = comm::this_world();
  const int launcher = connect_to_launcher(socket_name);
  const auto streams = receive_streams(launcher);
  if (!streams) fail(ErrorCode::runtime, "launch: rank {}: the launcher gave no streams", world.rank);
  const bool prefixed = output == RankOutput::prefixed;
  const Ends out = make_pipe(), errors = make_pipe();
  keep_to_own_cores(world);
  const pid_t self = getpid(), child = fork();
  if (child < 0) fail(ErrorCode::runtime, "launch: rank {}: no process: {}", world.rank, std::strerror(errno));
  if (child == 0) become(command, prefixed ? out.write : (*streams)[0], prefixed ? errors.write : (*streams)[1], self);
  setpgid(child, child);
  close(out.write);
  close(errors.write);
  send_news(launcher, {RankNews::Kind::started, world.rank, child});

  const std::string prefix = "[" + std::to_string(world.rank) + "] ";
  Lines lines[] = {{out.read, (*streams)[0], prefix}, {errors.read, (*streams)[1], prefix}};
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, child, 0));  // -1 on old systems: looked at every 20 ms
  int status = 0;
  for (bool running = true; running;) {
    pollfd entries[] = {{.fd = lines[0].source(), .events = POLLIN, .revents = 0},
                        {.fd = lines[1].source(), .events = POLLIN, .revents = 0},
                        {.fd = launcher, .events = POLLIN, .revents = 0},
                        {.fd = ended, .events = POLLIN, .revents = 0}};
    poll(entries, 4, ended < 0 ? 20 : -1);
    if (entries[2].revents) kill(-child, SIGKILL);  // the launcher says nothing: it is gone
    running = waitpid(child, &status, WNOHANG) == 0;
    for (Lines& one : lines) {  // what is there; after the end, all that there is
      pollfd entry{.fd = one.source(), .events = POLLIN, .revents = 0};
      while (poll(&entry, 1, 0) > 0) {
        one.pass_on();
        entry.fd = one.source();
        if (running) break;
      }
      if (!running) one.finish();
    }
  }
  if (lines[0].error() != 0) send_news(launcher, {RankNews::Kind::lost_output, world.rank, lines[0].error()});
  send_news(launcher, {RankNews::Kind::ended, world.rank, status});
  return kFine;
}

}  // namespace strobe::cli
