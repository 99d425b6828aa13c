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

enum class Pass { forward, backward, total };
inline constexpr Pass kPasses[] = {Pass::forward, Pass::backward, Pass::total};
constexpr const char* name_of(Pass pass) {
  return pass == Pass::forward ? "forward" : pass == Pass::backward ? "backward" : "total";
}

struct Cell {
  Config config;
  std::string implementation, kernel;
  Run run;
  std::string status, reason;    // "ok" if any launch was
  std::string date;              // date of the last launch
  std::vector<Result> launches;  // launches of status ok, in file order

  // Median over launches of a launch's median seconds; total is forward plus backward. Empty if not timed.
  std::optional<double> seconds(Pass pass) const;
  // Nominal FLOP/s at that time.
  std::optional<double> flop_rate(Pass pass) const;
  std::optional<double> peak_mb() const;       // maximum over launches
  std::optional<double> saved_mb() const;      // saved for backward, maximum over launches
  std::optional<double> predicted_mb() const;  // equal in all launches
  std::size_t samples() const;                 // forward (else backward) samples, over all launches
};

// Keeps the order of first appearance. Moves each result into its cell.
std::vector<Cell> cells_of(std::vector<Result> results);

}  // namespace strobe::report
