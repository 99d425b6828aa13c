// Shows the progress of a sweep: on a terminal a bar with the time left, otherwise one line per row.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "bench/sweep/problem.h"
#include "cli/sweep/options.h"

namespace strobe::cli {

class SweepProgress {
 public:
  // `left` are the problems with cells that have no row; `total` counts all cells.
  SweepProgress(std::size_t total, const std::vector<bench::SweepProblem>& left, const StoppingRule& rule);

  void problem(const bench::SweepProblem& problem);  // call when the problem begins
  void step(const std::string& step, const std::string& implementation);
  void row(const Json& row);

  // Returns the predicted seconds for the problems that are not complete, scaled by the measured times of the others.
  double seconds_left() const;

 private:
  void end_problem();
  void draw(const std::string& doing);

  std::size_t total_, done_;
  StoppingRule rule_;
  // Predicted seconds of the problems that have not begun, of the current one, and of those that are done. Progress is
  // counted in problems, because the rows with times arrive at a problem's end.
  double predicted_left_ = 0, predicted_current_ = 0, predicted_done_ = 0;
  double prior_;  // weight of the prediction, in seconds of measured work
  double start_, problem_start_;
  double drawn_ = 0;           // time of the last update
  std::size_t rows_left_ = 0;  // rows of the current problem that are missing
  const bench::SweepProblem* problem_ = nullptr;
};

// Returns "ok flash2 batch 1, ...: forward 1.2 ms, backward 3.4 ms, 5.6 MiB".
std::string row_text(const Json& row, const bench::SweepProblem& problem);

// Returns the text of --dry-run. `is_known` returns true if a cell already has a row. Measures the machine's ceilings
// (maximum matmul rates; half a second per type) unless the plan has --quick.
std::string dry_run_text(const SweepPlan& plan,
                         const std::function<bool(const bench::SweepProblem&, const std::string& name)>& is_known);

}  // namespace strobe::cli
