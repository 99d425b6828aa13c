// What a person sees of a sweep while it runs: a bar with the time left on a terminal, a line a row otherwise.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "bench/sweep/problem.h"
#include "cli/sweep/options.h"

namespace strobe::cli {

class SweepProgress {
 public:
  // `left` are the cells that have no row yet, of `total`.
  SweepProgress(std::size_t total, const std::vector<bench::Problem>& left, const StoppingRule& rule);

  void problem(const bench::Problem& problem);  // that begins
  void step(const std::string& step, const std::string& implementation);
  void row(const Json& row);

  // Seconds that the problems without all of their rows will take: by prediction, set right by what the others took.
  double seconds_left() const;

 private:
  void end_problem();
  void draw(const std::string& doing);

  std::size_t total_, done_;
  StoppingRule rule_;
  // Seconds. Rows of a problem come together at its end, so that problems count and not rows.
  double predicted_left_ = 0, predicted_current_ = 0, predicted_done_ = 0;  // of the three kinds of problems
  double prior_;  // how much of a sweep the prediction outweighs
  double start_, problem_start_;
  double drawn_ = 0;           // when
  std::size_t rows_left_ = 0;  // of the problem
  const bench::Problem* problem_ = nullptr;
};

// "ok flash2 batch 1, ...: forward 1.2 ms, backward 3.4 ms, 5.6 MiB"
std::string row_text(const Json& row, const bench::Problem& problem);

// `is_known` tells which cells have a row already. Measures the machine's ceilings (half a second a type) unless the
// plan says --quick.
std::string dry_run_text(const SweepPlan& plan,
                         const std::function<bool(const bench::Problem&, const std::string& name)>& is_known);

}  // namespace strobe::cli
