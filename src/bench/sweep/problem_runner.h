// Runs a problem in a child process, `strobe bench --events`, and sees to it that every cell of it gets one row: the
// child's own, or one that says how the child was lost. Called by `strobe sweep`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/python_child.h"
#include "bench/sweep/problem.h"

namespace strobe::bench {

struct RunnerOptions {
  std::string program;             // that knows `bench --events`
  std::vector<std::string> flags;  // of bench, for all problems
  bool quick = false;              // those flags have --quick: ceilings are not measured
  bool lends_python = false;       // the program is this one: it knows how to ask the peers' child
  double cell_limit = 600;         // seconds that a cell may take
  Json sweep;                      // goes into every row as "sweep"

  std::function<void(Json row)> row;  // takes each row the moment it is known
  std::function<void(const std::string& step, const std::string& implementation)> step;
};

class ProblemRunner {
 public:
  explicit ProblemRunner(RunnerOptions options) : options_(std::move(options)) {}

  // `words` are the flags of the problem's case. One row for each implementation of the problem, in any order. Where
  // the child is lost over one of them (it crashes, it hangs), a new child does those that have no row yet. Throws
  // Error(unsupported) where the program cannot be started.
  void run(const Problem& problem, const std::vector<std::string>& words);

 private:
  struct Listening;  // to one child

  void listen(Listening& state);
  bool hear_all(Child& child, Listening& state);
  bool can_lend(const Listening& state);
  bool take(Listening& state, const std::string& line);
  void take_row(Listening& state, Json row);
  void hand_over(const Problem& problem, Json row);
  void lose(Listening& state, Status status, const std::string& how, int signal);
  std::vector<std::string> command_for(const Listening& state) const;

  RunnerOptions options_;
  int launch_ = 1;                         // of the last problem
  std::unique_ptr<PythonProcess> python_;  // that the peers of all problems are asked through; none: to be started
  Json environment_;                       // of the last child that told one
  std::map<std::string, Json> ceilings_;   // measured once a sweep for each device, type and number of threads
};

}  // namespace strobe::bench
