// Implements `strobe launch -n N -- COMMAND`, which starts N local ranks of a strobe command or a program.
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "app/help.h"
#include "app/options.h"
#include "app/signals.h"
#include "app/terminal.h"
#include "cli/launch/job.h"
#include "cli/verbs.h"
#include "comm/world.h"
#include "core/clock.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

constexpr const char* kLaunchIntroduction =
    "usage: strobe launch -n N [--flag value ...] -- COMMAND [WORDS...]\n\n"
    "Starts N ranks on this machine through mpirun, each on its share of the cores if there are N cores or more.\n"
    "COMMAND is comm, lm bench or lm train of strobe, or a program (with a slash). Each output line begins with\n"
    "its rank's number. Signals are forwarded to all ranks. When a rank fails, the others are ended too, even stopped\n"
    "ones. The exit code is that of the first rank that failed.\n\n"
    "  strobe launch -n 4 -- comm --sizes 1M\n"
    "  strobe launch -n 2 --max-restarts 3 -- ./my-program --its-flag\n\n";

struct LaunchOptions {
  Job job;
  int max_restarts = 0;
  double restart_delay = 1;  // seconds before the first restart
  bool prefix = true;
  std::string as_rank;
};

OptionTable make_table(LaunchOptions& options) {
  OptionTable table;
  table.add("ranks", "N", "number of ranks; short: -n N", integer_into(options.job.ranks, 1, 1024), {"n"});
  table.add(
      "max-restarts", "K",
      "after a failure, start all ranks again up to K times, unless a rank's exit code is 2 or 128 + signal; default 0",
      integer_into(options.max_restarts, 0, 1000000));
  table.add("restart-delay", "SECONDS",
            "pause before the first restart, doubled for each later one, at most 30; default 1",
            [&](auto flag, auto value) { options.restart_delay = value == "0" ? 0 : parse_seconds(flag, value); });
  table.add("grace", "SECONDS", "time for ranks to end by themselves; default 5 after a failure, 60 after a signal",
            into(options.job.grace, parse_seconds));
  table.add(make_switch("prefix", "prefix each line with its rank's number; default on", options.prefix));
  table.add({.name = kRankFlag, .apply = [&](auto, auto value) { options.as_rank = value; }});
  return table;
}

// Checks once, before any rank starts, that the program can be executed.
void check_program(const std::string& path) {
  const auto refuse = [&](const char* why) {
    fail(ErrorCode::invalid_argument, "launch: {}: {}; valid: a program, or a command of strobe (without a slash)",
         printable_value(path), why);
  };
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) refuse(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse("is a folder");
  if (access(path.c_str(), X_OK) != 0) refuse("cannot be run: no permission");
}

// Rejects commands of strobe that do not split their work among ranks: each rank would do all of it and write the same
// files.
void check_shares_work(const std::vector<std::string>& words, int ranks) {
  const std::vector<std::string> valid = {"comm", "lm bench", "lm train"};
  const std::string name = words[0] == "lm" && words.size() > 1 ? "lm " + words[1] : words[0];
  if (ranks == 1 || std::find(valid.begin(), valid.end(), name) != valid.end()) return;
  fail(ErrorCode::invalid_argument, "launch: {} {}; valid on {}: {}, or a program (with a slash)",
       printable_value(name), name == "lm" ? "needs a command" : "does not run on several ranks",
       counted(ranks, "rank"), fmt::join(valid, ", "));
}

std::vector<std::string> command_of(const std::vector<std::string>& words, int ranks,
                                    void (*check_command)(std::string_view)) {
  if (words[0].find('/') != std::string::npos) {
    check_program(words[0]);
    return words;
  }
  check_command(words[0]);
  check_shares_work(words, ranks);
  return own_command(words);
}

// Returns true if the job may succeed after a restart. After bad input, or a signal that asked a rank to end, it would
// end the same way.
bool is_worth_a_restart(const JobEnd& end) {
  return !end.returned || (end.code != kBadInput && !is_end_by_signal(end.code));
}

// Seconds before each restart. They double each time up to 30, and are reset after a job that ran over a minute.
class RestartDelay {
 public:
  explicit RestartDelay(double first) : first_(first), next_(first) {}

  double after_run_of(double seconds) {
    constexpr double kLongest = 30, kLongRun = 60;
    if (seconds > kLongRun) next_ = first_;
    const double delay = next_;
    next_ = std::max(first_, std::min(2 * next_, kLongest));
    return delay;
  }

 private:
  double first_, next_;
};

// Waits until the time is over or a signal arrives. Returns the signal; 0: none.
int pause_for(double seconds) {
  const SignalQueue signals;
  const double until = now_seconds() + seconds;
  for (double left; (left = until - now_seconds()) > 0;) {
    pollfd entry{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
    poll(&entry, 1, static_cast<int>(std::min(left, 1e5) * 1000) + 1);
    if (const int signal = signals.next()) return signal;
  }
  return 0;
}

int run_with_restarts(LaunchOptions& options) {
  RestartDelay delays(options.restart_delay);
  for (;;) {
    const double begin = now_seconds();
    const JobEnd end = run_job(options.job);
    if (end.lost_output != 0) note_lost_output(end.lost_output);
    if (end.signal)
      complain(
          fmt::format("launch: ended by signal {} ({}), forwarded to the ranks", end.signal, strsignal(end.signal)));
    if (end.why.empty()) return end.code;
    const bool again = !end.signal && is_worth_a_restart(end) && options.job.restarts < options.max_restarts;
    if (!again) {
      complain("launch: " + end.why);
      return end.code;
    }
    const double delay = delays.after_run_of(now_seconds() - begin);
    ++options.job.restarts;
    complain(fmt::format("launch: {}; restart {} of {}{}", end.why, options.job.restarts, options.max_restarts,
                         delay > 0 ? fmt::format(" in {:g} s", delay) : ""));
    if (const int signal = pause_for(delay)) {
      complain(fmt::format("launch: ended by signal {} ({}) before a restart", signal, strsignal(signal)));
      return 128 + signal;
    }
  }
}

}  // namespace

int run_launch(Arguments arguments, void (*check_command)(std::string_view name)) {
  LaunchOptions options;
  options.job.ranks = 0;  // 0: not given; -n is required
  OptionTable table = make_table(options);
  std::vector<std::string_view> flags;
  std::vector<std::string> words;
  std::size_t i = 0;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) flags.push_back(arguments[i]);
  const bool is_apart = i < arguments.size();
  for (++i; i < arguments.size(); ++i) words.emplace_back(arguments[i]);
  if (!is_apart && flags.size() > 2 && (flags[0] == "-n" || flags[0] == "--ranks") && !flags[2].starts_with("-")) {
    fail(ErrorCode::invalid_argument, "launch: -- is missing before {}: strobe launch -n N -- COMMAND",
         printable(flags[2]));
  }
  table.check_with([&] {
    if (words.empty()) fail(ErrorCode::invalid_argument, "launch: no command given: strobe launch -n N -- COMMAND");
  });
  if (table.parse(flags) == OptionTable::Outcome::help) {
    print_help(kLaunchIntroduction + table.help());
    return kFine;
  }
  options.job.output = options.prefix ? RankOutput::prefixed : RankOutput::plain;
  if (!options.as_rank.empty()) return run_rank(options.as_rank, options.job.output, words);
  if (const comm::World world = comm::this_world(); !world.launcher.empty())
    fail(ErrorCode::invalid_argument, "launch: this process is already rank {} of a job of {}", world.rank,
         world.launcher);
  if (options.job.ranks == 0) fail(ErrorCode::invalid_argument, "launch: -n is missing; valid: -n 1 to -n 1024");
  options.job.command = command_of(words, options.job.ranks, check_command);
  set_signal_message("launch: ended by a signal");  // for a signal before or after a job
  return run_with_restarts(options);
}

}  // namespace strobe::cli
