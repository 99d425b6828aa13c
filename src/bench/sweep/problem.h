// Units of a sweep. A problem is a case with its implementations, run by one child process. A cell is a problem with
// one implementation and has one row in the result file. With --launches N each problem occurs N times, as its
// launches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/case.h"
#include "bench/ceilings.h"
#include "measure/stopping_rule.h"

namespace strobe::bench {

struct Problem {
  Case one;
  std::vector<std::string> implementations;  // canonical names
  Json config;                               // "config" of its rows, with "shrink"
  int launch = 1, launches = 1;              // numbered from 1
};

// "batch 1, 4 heads x 64, sequence 512, fp32", with the launch if several.
std::string describe(const Problem& problem);

// `shrink` divides the batch, down to 1, and with the remaining factor the sequences. Sequences of 512 or more stay at
// least 512.
Problem make_problem(Case one, std::vector<std::string> implementations, std::int64_t shrink = 1);

// Identity of a cell: the configuration, the implementation and the launch. The second overload computes the same text
// from a row; a row without a launch is the first.
std::string cell_key(const Problem& problem, const std::string& implementation);
std::string cell_key(const Json& row);

// "launch" of a row: {"number": 2, "of": 5}.
Json launch_json(const Problem& problem);

// Problems without duplicates, in insertion order.
class ProblemList {
 public:
  // Merges the implementations into an existing problem of the same configuration. Returns how many cells existed
  // already.
  std::size_t add(Problem problem);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
  std::unordered_map<std::string, std::size_t> places_;  // by configuration
};

// Returns each problem once per launch. All first launches come first, so an interrupted sweep has complete grids.
std::vector<Problem> launched(const std::vector<Problem>& problems, int launches);

std::size_t count_cells(const std::vector<Problem>& problems);

// Returns shard `number` of `count` (1 is the first), in the order of `problems`. Greedy: by decreasing cost, each
// problem goes to the least loaded shard. Depends only on the problems, so the nodes of a job array agree.
std::vector<Problem> share_of(const std::vector<Problem>& problems, const StoppingRule& rule, int number, int count);

// Rough time and memory of a cell, for dry runs, for the remaining time, and to partition a grid. No result depends on
// it.

// FLOP/s of a matmul, if the machine's rate was not measured.
double assumed_matmul_rate(Device device);

// Seconds of a forward and, if timed, a backward: nominal FLOPs at the implementation's typical share of the matmul
// rate.
double predicted_call(const Case& one, const std::string& implementation, double product_rate);

// Seconds of a cell: its share of the child's start, check, warm-up, samples.
double predicted_seconds(const Case& one, const std::string& implementation, const StoppingRule& rule,
                         double product_rate);

// All cells of a problem at the assumed rate: the same on every machine.
double predicted_seconds(const Problem& problem, const StoppingRule& rule);

// Bytes of tensors and workspace of a run. For `torch-naive` its predicted peak; for other peers only the tensors, a
// lower bound. A kernel that rejects the case has a reason instead.
struct PredictedMemory {
  std::optional<std::int64_t> bytes;
  std::string refusal;
};
PredictedMemory predicted_memory(const Case& one, const std::string& implementation);

}  // namespace strobe::bench
