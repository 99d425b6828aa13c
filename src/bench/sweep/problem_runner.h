// Runs a problem in a child process, `strobe bench --events`. Every cell gets one row: the row that the child sent, or
// one that describes how the child failed. `strobe sweep` uses this.
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
  std::string program;             // must support `bench --events`
  std::vector<std::string> flags;  // bench flags for all problems
  bool quick = false;              // true if the flags contain --quick, so that ceilings are not measured
  bool lends_python = false;       // true if the program supports the Python relay
  double cell_limit = 600;         // time limit of a cell in seconds
  Json sweep;                      // written into every row as "sweep"

  std::function<void(Json row)> row;  // called with each row as soon as it is complete
  std::function<void(const std::string& step, const std::string& implementation)> step;
};

class ProblemRunner {
 public:
  explicit ProblemRunner(RunnerOptions options) : options_(std::move(options)) {}

  // `words` are the bench flags that describe the case. Emits one row per implementation, in any order. If the child
  // crashes or an implementation exceeds its time limit, a new child runs the implementations without a row. Throws
  // Error(unsupported) if the program cannot be started.
  void run(const SweepProblem& problem, const std::vector<std::string>& words);

 private:
  struct ChildRun;  // state of one child

  void run_child(ChildRun& state);
  bool read_events(Child& child, ChildRun& state);
  bool can_lend(const ChildRun& state);
  bool take_event(ChildRun& state, const std::string& line);
  void take_row(ChildRun& state, Json row);
  void emit_row(const SweepProblem& problem, Json row);
  void emit_lost_rows(ChildRun& state, Status status, const std::string& how, int signal);
  std::vector<std::string> command_for(const ChildRun& state) const;

  RunnerOptions options_;
  int launch_ = 1;                         // launch number of the last problem
  std::unique_ptr<PythonProcess> python_;  // Python process of all problems' PyTorch peers; null: not started
  Json environment_;                       // from the last child that sent one
  std::map<std::string, Json> ceilings_;   // measured once per sweep for each device, type and number of threads
};

}  // namespace strobe::bench
