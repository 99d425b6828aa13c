// Measures training steps in a child process. The child prints one line of JSON per step and one at the end:
// {"times": ...} or {"oom": "..."}.
#include "cli/lm/one_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "app/program.h"
#include "app/terminal.h"
#include "core/clock.h"
#include "core/fail.h"
#include "measure/quiet.h"
#include "process/spawn.h"

namespace strobe::cli {
namespace {

constexpr double kTurn = 5;  // longest wait of advance() in seconds; each return wakes the other ranks once

std::vector<std::string> child_command(Arguments arguments, std::size_t cell, int threads) {
  std::vector<std::string> words{this_program().string(), "lm", "bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back(fmt::format("--{}={},{}", kOneProcessFlag, cell, threads));
  return words;
}

void print_line(const Json& message) { print(message.dump() + "\n"); }

}  // namespace

int run_as_one_process(const LmBenchOptions& options) {
  const std::vector<std::string> words = split(options.as_one_process, ',');
  const std::vector<LmBenchCell> cells = lm_bench_cells(options);
  if (words.size() != 2) fail(ErrorCode::invalid_argument, "--{}: valid: CELL,THREADS", kOneProcessFlag);
  const std::string flag = fmt::format("--{}", kOneProcessFlag);
  const std::int64_t last = static_cast<std::int64_t>(cells.size()) - 1;
  lm::BenchCase one = cells[static_cast<std::size_t>(parse_integer(flag, words[0], 0, last))].one;
  one.execution.threads = static_cast<int>(parse_integer(flag, words[1], 1, 1 << 20));
  try {
    const lm::ParallelTimes times = lm::time_lone_step(one, [] { print_line(Json::object({{"step", true}})); });
    print_line(Json::object({{"times", lm::to_json(times)}}));
  } catch (const Error& error) {  // the whole batch may not fit even if each rank's share does
    if (error.code() != ErrorCode::out_of_memory) throw;
    print_line(Json::object({{"oom", error.what()}}));
  }
  return kFine;
}

OneProcess::OneProcess(const comm::Communicator& ranks, Arguments arguments, std::size_t cell, int threads)
    : limit_(ranks.limits().operation), heard_(now_seconds()) {
  std::optional<CoresOfParent> cores;
  if (!ranks.world().launcher.empty()) cores.emplace();
  child_.emplace(child_command(arguments, cell, threads), ChildOptions{.longest_line = std::size_t{1} << 30});
  child_->close_input();
}

bool OneProcess::advance() {
  const double until = now_seconds() + std::min(kTurn, limit_ / 2);
  for (std::string line; !done_ && now_seconds() < until;) {
    switch (child_->hear(line, until - now_seconds())) {
      case Child::Heard::line: take(line); break;
      case Child::Heard::nothing: break;
      case Child::Heard::end: fail(ErrorCode::runtime, "lm bench: one process {}", child_->end(2).text());
    }
  }
  if (done_) child_.reset();  // frees its memory
  if (!done_ && now_seconds() - heard_ > limit_) {
    fail(ErrorCode::runtime, "lm bench: one process took no step in {:g} s", limit_);
  }
  return done_;
}

void OneProcess::take(const std::string& line) {
  heard_ = now_seconds();
  const Json message = Json::parse(line);
  if (const Json* times = message.find("times")) times_ = lm::parallel_times_from(*times);
  if (const Json* oom = message.find("oom")) error_ = oom->as_string();
  done_ = times_ || !error_.empty();
}

}  // namespace strobe::cli
