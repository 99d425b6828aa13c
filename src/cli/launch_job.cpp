// The launcher's side: mpirun with its settings, signals, the first failure, and the end of all ranks.
#include "cli/launch_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/launch_refusals.h"
#include "cli/launch_socket.h"
#include "cli/signal_queue.h"
#include "cli/single_copy.h"
#include "cli/this_program.h"
#include "comm/channel.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

constexpr double kStartLimit = 60;   // seconds for mpirun to start all ranks
constexpr double kKillDelay = 2;     // from asking a rank to end to ending it, and then to ending the process around it
constexpr int kLookEvery = 100;      // milliseconds without news after which limits are looked at
constexpr double kWakeEvery = 1;     // seconds between two wake-ups of the processes around ranks
constexpr double kMpirunLimit = 10;  // for mpirun to end once all ranks have

std::string make_socket_name() { return fmt::format("strobe-launch-{}-{}", getpid(), random_word()); }

// On one host, as many ranks as asked for, as whoever calls; no ssh, no batch system. A rank that is lost is our
// business (recovery), and ranks that wait leave their core to others.
std::vector<std::string> mpirun_words(const Job& job, const std::string& socket_name) {
  std::vector<std::string> words{"mpirun",
                                 "--allow-run-as-root",
                                 "--oversubscribe",
                                 "--bind-to",
                                 "none",
                                 "--enable-recovery",
                                 "-q",
                                 "--mca",
                                 "plm",
                                 "isolated",
                                 "--mca",
                                 "ras",
                                 "^slurm,tm,gridengine",
                                 "--mca",
                                 "mpi_yield_when_idle",
                                 "1"};
  if (!single_copy_works()) words.insert(words.end(), {"--mca", "btl_vader_single_copy_mechanism", "none"});
  words.insert(words.end(), {"-n", std::to_string(job.ranks), this_program().string(), "launch",
                             fmt::format("--{}={}", kRankFlag, socket_name),
                             job.output == RankOutput::prefixed ? "--prefix=on" : "--prefix=off", "--"});
  words.insert(words.end(), job.command.begin(), job.command.end());
  return words;
}

struct Rank {
  int socket = -1;
  pid_t around = 0;  // the process that tells of the rank
  int number = -1;   // known with the first news
  pid_t pid = 0;     // 0: not started, or ended
};

class RunningJob {
 public:
  explicit RunningJob(const Job& job) : job_(job), name_(make_socket_name()), listener_(listen_for_ranks(name_)) {
    mpirun_output_ = memfd_create("strobe-mpirun", MFD_CLOEXEC);
    start_mpirun();
  }
  ~RunningJob() {
    end_ranks(SIGKILL);
    if (mpirun_ > 0) wait_for_mpirun();
    for (const Rank& rank : ranks_) close(rank.socket);
    close(listener_);
    close(mpirun_output_);
  }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  JobEnd run() {
    const double started = now_seconds();
    while (ended_ < job_.ranks) {
      hear_news(kLookEvery);
      pass_signals_on();
      wake_tellers();
      if (mpirun_ended()) {
        while (hear_news(0)) {  // whoever mpirun waited for has told all by now: none of it may be unread
        }
        if (ended_ < job_.ranks) note_failure(kRuntimeFailure, mpirun_complaint(), false);
      }
      if (static_cast<int>(ranks_.size()) < job_.ranks && now_seconds() > started + kStartLimit)
        note_failure(kRuntimeFailure,
                     fmt::format("mpirun started {} of {} ranks in {} s", ranks_.size(), job_.ranks, kStartLimit),
                     false);
      end_in_steps();
      if (mpirun_ < 0 && std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.pid == 0; }))
        break;
    }
    const std::string refused = refusals_.text(job_.ranks);
    const bool as_told = end_.signal && is_end_by_signal(end_.code);
    const bool says_why = !refused.empty() && end_.returned && end_.code == kBadInput;
    if (as_told || says_why) end_.why.clear();
    if (!end_.why.empty() && !refused.empty()) end_.why += "; ";
    end_.why += refused;
    if (end_.signal) end_.code = 128 + end_.signal;
    return end_;
  }

 private:
  void start_mpirun() {
    const std::vector<std::string> words = mpirun_words(job_, name_);
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    setenv("STROBE_JOB", job_.id.c_str(), 1);
    setenv("STROBE_RANKS", std::to_string(job_.ranks).c_str(), 1);
    setenv("STROBE_RESTARTS", std::to_string(job_.restarts).c_str(), 1);
    if (!getenv("MASTER_ADDR") || job_.restarts > 0) {
      const comm::Listener free(comm::Listener::Reach::this_host);
      setenv("MASTER_ADDR", "127.0.0.1", 1);
      setenv("MASTER_PORT", std::to_string(free.port()).c_str(), 1);
    }
    mpirun_ = fork();
    if (mpirun_ < 0) fail(ErrorCode::runtime, "launch: no process: {}", std::strerror(errno));
    if (mpirun_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);  // a terminal's Ctrl-C is the launcher's to pass on
    signals_.restore();
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(mpirun_output_, stream);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }

  // Whether there was any, of a rank, in so many milliseconds.
  bool hear_news(int milliseconds) {
    std::vector<pollfd> entries{{.fd = listener_, .events = POLLIN, .revents = 0},
                                {.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Rank& rank : ranks_) entries.push_back({.fd = rank.socket, .events = POLLIN, .revents = 0});
    bool any = false;
    if (poll(entries.data(), entries.size(), milliseconds) <= 0) return any;
    for (std::size_t i = 0; i + 2 < entries.size(); ++i) {
      if (!entries[i + 2].revents) continue;
      hear(ranks_[i]);
      any = true;
    }
    if (entries[0].revents) {
      const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return any;
      ranks_.push_back({.socket = socket, .around = process_behind(socket)});
      send_streams(socket);
      any = true;
    }
    return any;
  }

  void hear(Rank& rank) {
    const std::optional<RankNews> news = receive_news(rank.socket);
    if (!news) {
      close(std::exchange(rank.socket, -1));
      if (rank.pid == 0) return;
      kill(-rank.pid, SIGKILL);
      end_of(rank, SIGKILL);
      return;
    }
    rank.number = news->rank;
    if (news->kind == RankNews::Kind::started) {
      rank.pid = news->value;
      if (end_.signal) kill(-rank.pid, end_.signal);  // which came before there was a rank to pass it on to
    } else if (news->kind == RankNews::Kind::lost_output) {
      if (end_.lost_output == 0) end_.lost_output = news->value;
    } else {
      end_of(rank, news->value);
    }
  }

  void end_of(Rank& rank, int status) {
    rank.pid = 0;
    ++ended_;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      note_failure(128 + signal, fmt::format("rank {} died of signal {} ({})", rank.number, signal, strsignal(signal)),
                   false);
    } else if (WEXITSTATUS(status) != 0) {
      const int code = WEXITSTATUS(status);
      note_failure(code, fmt::format("rank {} ended with exit code {}", rank.number, code), true);
    }
  }

  // The first failure that is told of, but for one thing: ranks that a peer's end has ended (kRuntimeFailure) may be
  // heard of before that peer.
  void note_failure(int code, std::string why, bool returned) {
    const bool cause = end_.code == kRuntimeFailure && code != kRuntimeFailure && !asked_;
    if (!end_.why.empty() && !cause) return;
    end_.code = code;
    end_.why = std::move(why);
    end_.returned = returned;
    const bool told_to = end_.signal != 0 || (returned && is_end_by_signal(code));
    be_patient_for(told_to ? kSignalGrace : kFailureGrace);
  }

  void be_patient_for(double unless_said) {
    ask_at_ = std::min(ask_at_, now_seconds() + job_.grace.value_or(unless_said));
  }

  void pass_signals_on() {
    while (const int signal = signals_.next()) {
      end_ranks(signal);
      if (signal == SIGUSR1 || signal == SIGUSR2) continue;
      end_.signal = signal;
      be_patient_for(kSignalGrace);
    }
  }

  // After a failure or a signal: patience, then a request, then the end, which stopped processes cannot put off.
  void end_in_steps() {
    const double now = now_seconds();
    if (now < ask_at_) return;
    if (!asked_) end_ranks(SIGTERM);
    asked_ = true;
    if (now > ask_at_ + kKillDelay) end_ranks(SIGKILL);
    if (now > ask_at_ + 2 * kKillDelay) signal_tellers(SIGKILL);
    if (now > ask_at_ + kKillDelay && mpirun_ > 0 && ranks_.empty()) kill(mpirun_, SIGKILL);
  }

  void end_ranks(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) kill(-rank.pid, signal);
    }
  }

  // A rank may be stopped and go on, but the process around it would keep the rank's lines and its end to itself.
  void wake_tellers() {
    const double now = now_seconds();
    if (now < wake_at_) return;
    wake_at_ = now + kWakeEvery;
    signal_tellers(SIGCONT);
  }

  void signal_tellers(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.socket >= 0 && rank.around > 0) kill(rank.around, signal);
    }
  }

  bool mpirun_ended() {
    if (mpirun_ < 0) return true;
    if (waitpid(mpirun_, nullptr, WNOHANG) != mpirun_) return false;
    mpirun_ = -1;
    return true;
  }

  void wait_for_mpirun() {
    const double until = now_seconds() + kMpirunLimit;
    while (!mpirun_ended()) {
      if (now_seconds() > until) kill(mpirun_, SIGKILL);
      usleep(2'000);
    }
  }

  std::string mpirun_complaint() const {
    char text[2048];
    const ssize_t got = pread(mpirun_output_, text, sizeof(text), 0);
    std::string said(text, got > 0 ? static_cast<std::size_t>(got) : 0);
    std::replace(said.begin(), said.end(), '\n', ' ');
    if (said.empty()) return "mpirun could not be started (Debian: openmpi-bin) or said nothing";
    return "mpirun ended before its ranks: " + printable(said, 300);
  }

  const Job& job_;
  SignalQueue signals_;
  const RankRefusals refusals_;
  std::string name_;
  int listener_ = -1, mpirun_output_ = -1;
  pid_t mpirun_ = -1;
  std::vector<Rank> ranks_;
  int ended_ = 0;
  JobEnd end_;
  double ask_at_ = 1e300;  // when the ranks that are left are asked to end
  double wake_at_ = 0;
  bool asked_ = false;
};

}  // namespace

std::vector<std::string> own_command(const std::vector<std::string>& words) {
  std::vector<std::string> command{this_program().string()};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

bool is_end_by_signal(int code) { return code == 128 + SIGHUP || code == 128 + SIGINT || code == 128 + SIGTERM; }

JobEnd run_job(const Job& job) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0)
    fail(ErrorCode::unsupported, "launch: no mpirun in PATH (Debian: openmpi-bin)");
  RunningJob running(job);
  return running.run();
}

}  // namespace strobe::cli
