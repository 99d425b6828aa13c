// Implements ProblemRunner: starts children and reads their events (cli/bench/launches.h). Elapsed time counts for the
// implementation of the last step event, so a slow implementation cannot use up the time limit of the others.
#include "bench/sweep/problem_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/ceilings.h"
#include "bench/row.h"
#include "bench/torch_peer.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::bench {
namespace {

constexpr std::size_t kMaxRowBytes = std::size_t{1} << 28;  // a million samples per region take about 70 MB

// Returns the key of ceilings_: cases with equal keys have the same ceilings.
std::string ceilings_key(const AttentionCase& one) {
  return fmt::format("{} {} {}", name_of(one.device), strobe::name_of(one.dtype), one.threads);
}

// Parses an event and checks that it has all members that are read later. Returns nullopt if the line is not a valid
// event.
std::optional<Json> parse_event(const std::string& line, const std::vector<std::string>& left) {
  try {
    Json event = Json::parse(line);
    if (const Json* row = event.find("row")) {
      row->at("environment").at("ceilings");
      row->at("status").as_string();
      const std::string& name = row->at("implementation").as_string();
      if (std::find(left.begin(), left.end(), name) == left.end()) return std::nullopt;
    } else if (!event.find("environment")) {
      event.at("step").as_string();
      event.at("implementation").as_string();
    }
    return event;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

struct ProblemRunner::ChildRun {
  const SweepProblem& problem;
  const std::vector<std::string>& words;
  std::vector<std::string> left;          // implementations without a row
  std::string current;                    // implementation of the last step; empty: all
  std::map<std::string, double> spent{};  // seconds per implementation so far
  double since = 0;                       // start of the last step
};

void ProblemRunner::run(const SweepProblem& problem, const std::vector<std::string>& words) {
  if (std::exchange(launch_, problem.launch) != problem.launch) python_.reset();  // a launch uses new processes
  std::vector<std::string> left = problem.implementations;
  while (!left.empty()) {
    ChildRun state{.problem = problem, .words = words, .left = std::move(left), .current = {}};
    run_child(state);
    left = std::move(state.left);
  }
}

std::vector<std::string> ProblemRunner::command_for(const ChildRun& state) const {
  std::vector<std::string> command{options_.program, "bench"};
  command.insert(command.end(), state.words.begin(), state.words.end());
  command.insert(command.end(), {"--impl", fmt::format("{}", fmt::join(state.left, ","))});
  const bool known = !options_.quick && ceilings_.contains(ceilings_key(state.problem.one));
  for (const std::string& flag : options_.flags) {
    if (!known || flag != "--quick=off") command.push_back(flag);
  }
  if (known) command.emplace_back("--quick");
  command.emplace_back("--events");
  return command;
}

// Returns true if the child can use the sweep's Python process; starts that process if the problem needs one. If Python
// cannot be started, the child tries again, and its rows contain the reason.
bool ProblemRunner::can_lend(const ChildRun& state) {
  if (!options_.lends_python) return false;
  if (std::none_of(state.left.begin(), state.left.end(), is_torch_peer)) return false;
  if (python_ && !python_->child().is_running()) python_.reset();
  if (python_) return true;
  try {
    python_ = std::make_unique<PythonProcess>();
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Runs the child, with a relay to Python if needed. Ends Python if this child failed or left a request unanswered,
// because the next child would read that answer.
void ProblemRunner::run_child(ChildRun& state) {
  std::vector<std::string> command = command_for(state);
  ChildOptions options{.descriptors = {}, .longest_line = kMaxRowBytes};
  std::optional<PythonRelay> relay;
  if (can_lend(state)) {
    relay.emplace(*python_);
    command.push_back(fmt::format("--{}={}", kLentPythonFlag, python_->pid()));
    options.descriptors = relay->descriptors();
  }
  Child child(command, options);
  if (relay) relay->start();
  const bool ended_well = read_events(child, state);
  if (!relay || (relay->finish() && ended_well)) return;
  relay.reset();
  python_->end();
  python_.reset();
}

// Reads events until the child has sent all rows. Returns true if it then ended without an error.
bool ProblemRunner::read_events(Child& child, ChildRun& state) {
  const auto lost = [&](Status status, const std::string& how, int signal) {
    emit_lost_rows(state, status, how, signal);
    return false;
  };
  state.since = now_seconds();
  while (!state.left.empty()) {
    std::string line;
    const double used = state.spent[state.current] + now_seconds() - state.since;
    switch (child.hear(line, options_.cell_limit - used)) {
      case Child::Heard::line:
        if (take_event(state, line)) break;
        child.end(0);
        return lost(Status::crashed, fmt::format("the child wrote \"{}\"", printable(line)), 0);
      case Child::Heard::nothing:
        child.end(0);
        return lost(Status::timeout, fmt::format("took more than {} s", options_.cell_limit), 0);
      case Child::Heard::end:
        const ChildEnd end = child.end(2);
        return lost(Status::crashed, "the child " + end.text(), end.signal);
    }
  }
  const ChildEnd end = child.end(2);
  return end.is_fine();
}

// Returns false if the line is not an event.
bool ProblemRunner::take_event(ChildRun& state, const std::string& line) {
  const std::optional<Json> event = parse_event(line, state.left);
  if (!event) return false;
  if (const Json* row = event->find("row")) {
    take_row(state, *row);
  } else if (const Json* environment = event->find("environment")) {
    environment_ = *environment;
  } else {
    const double now = now_seconds();
    state.spent[state.current] += now - state.since;
    state.since = now;
    state.current = event->at("implementation").as_string();
    if (options_.step) options_.step(event->at("step").as_string(), state.current);
  }
  return true;
}

void ProblemRunner::take_row(ChildRun& state, Json row) {
  Json environment = row.at("environment");
  const std::string key = ceilings_key(state.problem.one);
  if (const auto known = ceilings_.find(key); known != ceilings_.end()) {
    environment.set("ceilings", known->second);
  } else if (!options_.quick) {
    ceilings_.emplace(key, environment.at("ceilings"));
  }
  std::erase(state.left, row.at("implementation").as_string());
  row.set("environment", std::move(environment));
  emit_row(state.problem, std::move(row));
}

// Adds to a row the data that only the sweep has, and passes the row to options_.row.
void ProblemRunner::emit_row(const SweepProblem& problem, Json row) {
  row.set("config", problem.config).set("sweep", options_.sweep);
  if (problem.launches > 1) row.set("launch", launch_json(problem));
  options_.row(std::move(row));
}

// Emits rows for the implementations that failed with the child: the current one or, if none is current, all without a
// row.
void ProblemRunner::emit_lost_rows(ChildRun& state, Status status, const std::string& how, int signal) {
  const bool one = std::find(state.left.begin(), state.left.end(), state.current) != state.left.end();
  const std::vector<std::string> lost = one ? std::vector<std::string>{state.current} : state.left;
  if (environment_.is_null() && state.problem.one.device == Device::cpu) environment_ = full_environment({});
  const std::vector<std::string> words = command_for(state);  // starts with the program, ends with --events
  const std::string command = fmt::format("strobe {}", fmt::join(words.begin() + 1, words.end() - 1, " "));
  for (const std::string& name : lost) {
    Row row;
    row.one = state.problem.one;
    row.implementation = name;
    row.status = status;
    row.reason = fmt::format("{}: {}", name, how);
    Json json = row_json(row, {.environment = environment_, .command = command});
    if (signal != 0) json.set("signal", signal);
    std::erase(state.left, name);
    emit_row(state.problem, std::move(json));
  }
}

}  // namespace strobe::bench
