// Groups rows into cells: rows of one implementation, configuration, machine and build are launches of one cell.
// compare and report operate on cells.
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

enum class Pass { forward, backward, total, step };                              // step: of a language model
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

// Statistic that represents the samples of a launch. `least` suits machines with other load.
enum class Estimate { median, least };

struct Cell {
  Config config;
  std::string implementation, kernel;
  Run run;
  std::string status, reason;    // "ok" if any launch was
  std::string date;              // date of the last launch
  std::vector<Result> launches;  // launches of status ok, in file order

  // Median over launches of the launches' estimates; total adds forward and backward. Empty if the pass was not timed.
  std::optional<double> seconds(Pass pass, Estimate estimate = Estimate::median) const;
  // Nominal FLOP/s at the time that seconds() returns.
  std::optional<double> flop_rate(Pass pass, Estimate estimate = Estimate::median) const;
  std::optional<double> peak_mb() const;       // maximum over launches
  std::optional<double> saved_mb() const;      // saved for backward, maximum over launches
  std::optional<double> predicted_mb() const;  // equal in all launches
  std::size_t samples() const;                 // forward (else backward) samples, over all launches
};

// Lower bound of the bytes that a pass moves: each tensor once (Q, K, V, O, LSE; backward also dO and gradients).
double least_bytes(const Config& config, Pass pass);

// Keeps the order of first appearance. Moves each result into its cell.
std::vector<Cell> cells_of(std::vector<Result> results);

}  // namespace strobe::report
