// Groups result rows into cells. Rows with the same implementation, configuration, machine and build are launches of
// one cell, measured by separate processes. `strobe compare` and `strobe report` operate on cells.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/result.h"

namespace strobe::report {

// Machine and build of a row.
struct Run {
  std::string machine, device, revision;
  std::int64_t threads = 0;
  bool operator==(const Run&) const = default;
};

enum class Pass { forward, backward, total, step };  // step: training step of a language model
inline constexpr Pass kPasses[] = {Pass::forward, Pass::backward, Pass::total};  // the passes of attention
constexpr const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return "forward";
    case Pass::backward: return "backward";
    case Pass::total: return "total";
    case Pass::step: return "step";
  }
  return "unknown";
}

// Statistic that represents the samples of a launch: the median, or the minimum (`least`) for machines with other load.
enum class Estimate { median, least };

struct Interval {
  double low, high;
};

struct Cell {
  Config config;
  std::string implementation, kernel;
  Run run;
  std::string status, reason;    // status is "ok" if any launch is ok, else that of the last launch
  std::string date;              // date of the last launch
  std::vector<Result> launches;  // launches with status ok, in file order

  // Returns the median of the launches' estimates; for Pass::total, the sum of forward and backward. Empty if the pass
  // was not timed.
  std::optional<double> seconds(Pass pass, Estimate estimate = Estimate::median) const;
  // Returns the interval of the median, extended over all launches; for Pass::total, the sums of both ends. Empty if
  // the pass was not timed.
  std::optional<Interval> interval(Pass pass) const;
  // Returns nominal FLOPs divided by seconds().
  std::optional<double> flop_rate(Pass pass, Estimate estimate = Estimate::median) const;
  std::optional<double> peak_mb() const;       // maximum over launches
  std::optional<double> saved_mb() const;      // saved for backward, maximum over launches
  std::optional<double> predicted_mb() const;  // equal in all launches
  std::size_t samples() const;                 // over all launches, of the first timed pass: forward, backward or step
};

// Returns a lower bound of the bytes that a pass moves: each of Q, K, V, O, LSE once; backward also dO, dQ, dK, dV.
double least_bytes(const Config& config, Pass pass);

// Groups results into cells, in order of first appearance.
std::vector<Cell> cells_of(std::vector<Result> results);

}  // namespace strobe::report
