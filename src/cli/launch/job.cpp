// Implements the launcher of one job: starts mpirun, forwards signals, records the first failure and ends all ranks.
#include "cli/launch/job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "app/program.h"
#include "app/signals.h"
#include "cli/launch/mpirun.h"
#include "cli/launch/rank_errors.h"
#include "cli/launch/supervisors.h"
#include "comm/channel.h"
#include "core/clock.h"
#include "core/descriptor.h"
#include "core/fail.h"
#include "core/printable.h"
#include "process/spawn.h"
#include "process/tree.h"

namespace strobe::cli {
namespace {

constexpr double kStartLimit = 60;   // seconds for mpirun to start all ranks
constexpr double kKillDelay = 2;     // seconds from SIGTERM to SIGKILL of a rank, then to SIGKILL of its supervisor
constexpr int kPollPeriod = 100;     // milliseconds between two checks of the limits
constexpr double kWakePeriod = 1;    // seconds between two SIGCONT to the supervisors
constexpr double kMpirunLimit = 10;  // seconds for mpirun to end after all ranks
constexpr double kBlameWindow = 1;   // seconds; rank failures at most this long before mpirun's death are blamed on it

int make_memory_file(const char* name) {
  const int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0) fail(ErrorCode::runtime, "launch: cannot create an unnamed file: {}", std::strerror(errno));
  return descriptor;
}

// Opens the listening socket of MASTER_PORT. If the user sets MASTER_ADDR, rank 0 listens there itself.
std::optional<comm::Listener> make_master_listener() {
  if (getenv("MASTER_ADDR")) return std::nullopt;
  return std::optional<comm::Listener>(std::in_place, comm::kLoopback);
}

class RunningJob {
 public:
  RunningJob(const Job& job, const std::filesystem::path& mpirun)
      : job_(job),
        folder_(job_folder_base()),
        shared_memory_(shared_memory_base(folder_.path())),
        master_(make_master_listener()),
        settings_{.program = mpirun,
                  .socket = folder_.path() / "socket",
                  .sessions = folder_.path(),
                  .shared_memory = shared_memory_.path(),
                  .launch_token = random_hex(),
                  .rank_token = random_hex(),
                  .preload = library_.preload(),
                  .master_port = master_ ? master_->port() : 0},
        mpirun_output_(make_memory_file("strobe-mpirun")),
        supervisors_(settings_.socket.string(), settings_.launch_token, job.ranks,
                     master_ ? master_->descriptor() : -1),
        runs_(static_cast<std::size_t>(job.ranks), false) {
    start_mpirun();
  }
  ~RunningJob() {
    supervisors_.signal_ranks(SIGKILL);
    if (mpirun_ > 0) wait_for_mpirun();
    if (lost_supervisors_) end_orphans();
    reap_orphans();
  }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;

  JobEnd run() {
    const double started = now_seconds();
    while (ended_ < job_.ranks) {
      handle_messages(kPollPeriod);
      pass_signals_on();
      wake_supervisors();
      if (lost_supervisors_) end_orphans();
      reap_orphans();
      if (mpirun_ < 0) {
        while (handle_messages(0)) {  // mpirun has exited: handle all messages that are still queued
        }
        if (ended_ < job_.ranks) note_failure(kRuntimeFailure, mpirun_failure(), false);
      }
      if (supervisors_.accepted() < job_.ranks && now_seconds() > started + kStartLimit)
        note_failure(
            kRuntimeFailure,
            fmt::format("mpirun started {} of {} ranks in {} s", supervisors_.accepted(), job_.ranks, kStartLimit),
            false);
      end_in_steps();
      if (mpirun_ < 0 && std::none_of(runs_.begin(), runs_.end(), [](bool runs) { return runs; })) break;
    }
    return conclude();
  }

 private:
  JobEnd conclude() {
    if (!end_.signal && passed_on_.contains(end_.code - 128)) end_.signal = end_.code - 128;
    const std::string refused = rank_errors_.text(job_.ranks);
    const bool ended_by_signal = end_.signal && is_end_by_signal(end_.code);
    const bool says_why = !refused.empty() && end_.returned && end_.code == kBadInput;
    if (ended_by_signal || says_why) end_.why.clear();
    if (!end_.why.empty() && !refused.empty()) end_.why += "; ";
    end_.why += refused;
    if (end_.signal) end_.code = 128 + end_.signal;
    return end_;
  }

  void start_mpirun() {
    const std::vector<std::string> words = mpirun_words(job_, settings_);
    const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    mpirun_ = spawn(words, {.input = nothing.get(),
                            .output = mpirun_output_.get(),
                            .errors = mpirun_output_.get(),
                            .others = SpawnOptions::Others::inherited,
                            .death_signal = SIGTERM,
                            .before_exec = [this] {
                              set_mpirun_environment(job_, settings_);
                              signals_.restore();
                            }});
    supervisors_.set_mpirun(mpirun_);
    mpirun_group_ = mpirun_;
  }

  // Handles the messages that arrive within `milliseconds`. Returns false if there are none.
  bool handle_messages(int milliseconds) {
    const std::vector<Supervisors::Event> events = supervisors_.wait(signals_.descriptor(), milliseconds);
    for (const Supervisors::Event& event : events) handle(event);
    return !events.empty();
  }

  void handle(const Supervisors::Event& event) {
    const auto runs = runs_.begin() + event.rank;
    if (!event.status) {  // the supervisor is gone, so the kernel has killed its rank (PR_SET_PDEATHSIG)
      if (!*runs) return;
      lost_supervisors_ = true;
      end_of(event.rank, SIGKILL);
    } else if (event.status->kind == RankStatus::Kind::started) {
      *runs = true;
      if (end_.signal) supervisors_.signal_rank(event.rank, end_.signal);  // the signal came before the rank started
    } else if (event.status->kind == RankStatus::Kind::lost_output) {
      if (end_.lost_output == 0) end_.lost_output = event.status->value;
    } else if (*runs) {
      end_of(event.rank, event.status->value);
    }
  }

  void end_of(int rank, int status) {
    runs_[static_cast<std::size_t>(rank)] = false;
    ++ended_;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      note_failure(128 + signal, fmt::format("rank {} died of signal {} ({})", rank, signal, strsignal(signal)), false);
    } else if (WEXITSTATUS(status) != 0) {
      const int code = WEXITSTATUS(status);
      note_failure(code, fmt::format("rank {} ended with exit code {}", rank, code), true);
    }
  }

  // Keeps the first failure, with one exception: another code replaces kRuntimeFailure. Ranks that end with
  // kRuntimeFailure because another rank failed may report before that rank does.
  void note_failure(int code, std::string why, bool returned) {
    const bool cause = end_.code == kRuntimeFailure && code != kRuntimeFailure && !asked_ && !mpirun_killed_;
    if (!end_.why.empty() && !cause) return;
    end_.code = code;
    end_.why = std::move(why);
    end_.returned = returned;
    failed_at_ = now_seconds();
    const bool by_signal = end_.signal != 0 || (returned && is_end_by_signal(code));
    allow_grace(by_signal ? kSignalGrace : kFailureGrace);
  }

  void allow_grace(double seconds) { ask_at_ = std::min(ask_at_, now_seconds() + job_.grace.value_or(seconds)); }

  // Forwards signals to the ranks. SIGUSR1 and SIGUSR2 start no grace period, since a program may use them itself.
  void pass_signals_on() {
    while (const int signal = signals_.next()) {
      supervisors_.signal_ranks(signal);
      passed_on_.insert(signal);
      if (signal == SIGUSR1 || signal == SIGUSR2) continue;
      end_.signal = signal;
      allow_grace(kSignalGrace);
    }
  }

  // After the grace period, sends SIGTERM to the ranks. Then, kKillDelay after each step, SIGKILL to the ranks and
  // SIGKILL to the supervisors.
  void end_in_steps() {
    const double now = now_seconds();
    if (now < ask_at_) return;
    if (!asked_) supervisors_.signal_ranks(SIGTERM);
    asked_ = true;
    if (now > ask_at_ + kKillDelay) supervisors_.signal_ranks(SIGKILL);
    if (now > ask_at_ + 2 * kKillDelay) supervisors_.signal_supervisors(SIGKILL);
    if (now > ask_at_ + kKillDelay && mpirun_ > 0 && !supervisors_.any_connected()) kill(mpirun_, SIGKILL);
  }

  // Sends SIGCONT to the supervisors: a stopped one would delay its rank's output and the report of its end.
  void wake_supervisors() {
    const double now = now_seconds();
    if (now < wake_at_) return;
    wake_at_ = now + kWakePeriod;
    supervisors_.signal_supervisors(SIGCONT);
  }

  // Kills the process groups of ranks whose supervisor was killed. Such a rank is now a child of this process
  // (ChildSubreaper); if the rank has ended, its children are now children of this process. The group id is not reused
  // before this process has waited for the child. Ranks that still have a supervisor are not affected.
  void end_orphans() {
    for (const pid_t child : own_children()) {
      if (child == mpirun_ || supervisors_.holds(child) || subreaper_.had(child)) continue;
      const pid_t group = getpgid(child);
      if (group <= 1 || group == getpgrp() || group == mpirun_group_) continue;
      const std::optional<ProcessStat> leader = stat_of(group);
      if (!leader || leader->parent == getpid()) kill(-group, SIGKILL);
    }
  }

  void reap_orphans() {
    for (;;) {
      siginfo_t ended{};
      if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
      int status = 0;
      waitpid(ended.si_pid, &status, 0);
      if (ended.si_pid == mpirun_) note_end_of_mpirun(status);
    }
  }

  void note_end_of_mpirun(int status) {
    mpirun_ = -1;
    if (!WIFSIGNALED(status) || asked_ || end_.signal) return;
    mpirun_killed_ = WTERMSIG(status);
    if (end_.why.empty() || now_seconds() > failed_at_ + kBlameWindow) return;
    end_.why = mpirun_failure();
    end_.code = kRuntimeFailure;
    end_.returned = false;
  }

  void wait_for_mpirun() {
    const double until = now_seconds() + kMpirunLimit;
    while (reap_orphans(), mpirun_ > 0) {
      if (now_seconds() > until) kill(mpirun_, SIGKILL);
      usleep(2'000);
    }
  }

  std::string mpirun_failure() const {
    if (mpirun_killed_)
      return fmt::format("mpirun was killed by signal {} ({})", mpirun_killed_, strsignal(mpirun_killed_));
    char text[2048];
    const ssize_t got = pread(mpirun_output_.get(), text, sizeof(text), 0);
    std::string output(text, got > 0 ? static_cast<std::size_t>(got) : 0);
    std::replace(output.begin(), output.end(), '\n', ' ');
    if (output.empty()) return "mpirun ended before its ranks, without a message";
    return "mpirun ended before its ranks: " + printable(output, 300);
  }

  const Job& job_;
  const SignalQueue signals_;
  const ChildSubreaper subreaper_;
  const RankErrors rank_errors_;
  const LockedFolder folder_, shared_memory_;
  const LoopbackLibrary library_;
  const std::optional<comm::Listener> master_;  // holds MASTER_PORT from before the start to the end
  const MpirunSettings settings_;
  const Descriptor mpirun_output_;
  Supervisors supervisors_;
  pid_t mpirun_ = -1, mpirun_group_ = -1;
  int mpirun_killed_ = 0;   // signal that killed mpirun; 0: none
  std::vector<bool> runs_;  // per rank: it has started and not ended
  int ended_ = 0;
  bool lost_supervisors_ = false;
  std::set<int> passed_on_;
  JobEnd end_;
  double failed_at_ = 0;
  double ask_at_ = 1e300;  // time at which the grace period ends and SIGTERM is sent
  double wake_at_ = 0;
  bool asked_ = false;
};

}  // namespace

std::vector<std::string> own_command(const std::vector<std::string>& words) {
  std::vector<std::string> command{this_program().string()};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

bool is_end_by_signal(int code) {
  switch (code - 128) {
    case SIGHUP:
    case SIGINT:
    case SIGTERM:
    case SIGUSR1:
    case SIGUSR2:
    case SIGXCPU:
    case SIGALRM: return true;
  }
  return false;
}

JobEnd run_job(const Job& job) {
  const std::filesystem::path mpirun = find_mpirun();
  check_descriptor_limit(job.ranks);
  const std::filesystem::path base = job_folder_base();
  for (const std::filesystem::path& one : {base, shared_memory_base(base)}) remove_dead_folders(one);
  RunningJob running(job, mpirun);
  return running.run();
}

}  // namespace strobe::cli
