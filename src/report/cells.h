// Rows of the same cell brought together: several rows of one implementation on one configuration, machine and build
// are several launches of it. compare and report work on cells.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/result.h"

namespace strobe::report {

// Where and with which build a row was made.
struct Run {
  std::string machine, device, revision;
  std::int64_t threads = 0;
  bool operator==(const Run&) const = default;
};

enum class Pass { forward, backward, total, step };                              // step: of a language model's training
inline constexpr Pass kPasses[] = {Pass::forward, Pass::backward, Pass::total};  // of attention
constexpr const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return "forward";
    case Pass::backward: return "backward";
    case Pass::total: return "total";
    case Pass::step: return "step";
  }
  return "unknown";
}

// What stands for a launch's samples. least: for machines that others use too.
enum class Estimate { median, least };

struct Cell {
  Config config;
  std::string implementation, kernel;
  Run run;
  std::string status, reason;    // "ok" where any launch was
  std::string date;              // of the last launch
  std::vector<Result> launches;  // those of status ok, in the order of the files

  // Median over launches of a launch's estimate; total is forward and backward added. Empty: not timed.
  std::optional<double> seconds(Pass pass, Estimate estimate = Estimate::median) const;
  // Nominal FLOP/s at that time.
  std::optional<double> flop_rate(Pass pass, Estimate estimate = Estimate::median) const;
  std::optional<double> peak_mb() const;       // the largest of the launches
  std::optional<double> kept_mb() const;       // between a forward and its backward, likewise
  std::optional<double> predicted_mb() const;  // the same in all of them
  std::size_t samples() const;                 // of the forward (else the backward), over all launches
};

// Bytes that a pass must move whatever the kernel: each tensor once (Q, K, V, O, LSE; backward also dO and gradients).
double least_bytes(const Config& config, Pass pass);

// Keeps the order in which cells first appear. Moves each result into its cell.
std::vector<Cell> cells_of(std::vector<Result> results);

}  // namespace strobe::report
