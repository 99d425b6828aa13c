// Units of a sweep. A problem is a case with its implementations; one child process runs it. A cell is one
// implementation of a problem and has one row in the result file. With --launches N each problem is run N times in new
// processes, called launches.
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

struct SweepProblem {
  AttentionCase one;
  std::vector<std::string> implementations;  // canonical names
  Json config;                               // "config" of its rows, with "shrink"
  int launch = 1, launches = 1;              // numbered from 1
};

// "batch 1, 4 heads x 64, sequence 512, fp32", followed by the launch number if there are several launches.
std::string describe(const SweepProblem& problem);

// Makes a problem that is smaller by the factor `shrink`: divides the batch, down to 1, and then the sequences by the
// remaining factor. Sequences of 512 or more are not reduced below 512.
SweepProblem make_problem(AttentionCase one, std::vector<std::string> implementations, std::int64_t shrink = 1);

// Returns the identity of a cell as text: implementation, launch and configuration. The second overload computes the
// same text from a result row; a row without "launch" counts as launch 1.
std::string cell_key(const SweepProblem& problem, const std::string& implementation);
std::string cell_key(const Json& row);

// "launch" of a row: {"number": 2, "of": 5}.
Json launch_json(const SweepProblem& problem);

// Problems without duplicates, in insertion order.
class ProblemList {
 public:
  // Adds a problem, or its implementations to an existing problem of the same configuration. Returns how many of its
  // cells existed already.
  std::size_t add(SweepProblem problem);
  const std::vector<SweepProblem>& problems() const { return problems_; }

 private:
  std::vector<SweepProblem> problems_;
  std::unordered_map<std::string, std::size_t> places_;  // by configuration
};

// Returns each problem once per launch: all first launches, then all second launches, so that an interrupted sweep has
// complete grids.
std::vector<SweepProblem> launched(const std::vector<SweepProblem>& problems, int launches);

std::size_t count_cells(const std::vector<SweepProblem>& problems);

// Returns shard `number` (from 1) of `count`, in the order of `problems`. Assigns problems greedily, by decreasing
// predicted time, each to the least loaded shard. The result depends only on the arguments, so the nodes of a job array
// agree.
std::vector<SweepProblem> share_of(const std::vector<SweepProblem>& problems, const StoppingRule& rule, int number,
                                   int count);

// Rough estimates of a cell's time and memory, for dry runs, for the displayed remaining time and for shards. Results
// do not depend on them.

// Assumed FLOP/s of a matmul, used if the machine's rate was not measured.
double assumed_matmul_rate(Device device);

// Predicted seconds of one call of each timed pass: nominal FLOPs at the implementation's typical share of the matmul
// rate.
double predicted_call(const AttentionCase& one, const std::string& implementation, double matmul_rate);

// Predicted seconds of a cell: a constant for the child's start and the check, warm-up and samples.
double predicted_seconds(const AttentionCase& one, const std::string& implementation, const StoppingRule& rule,
                         double matmul_rate);

// Predicted seconds of all cells of a problem at the assumed rate, so the result is the same on every machine.
double predicted_seconds(const SweepProblem& problem, const StoppingRule& rule);

// Predicted peak memory of a cell: tensors and workspace of a kernel, the model's peak of `torch-naive`, and for other
// peers the tensors as a lower bound. If a kernel does not support the case, `bytes` is empty and `refusal` has the
// reason.
struct PredictedMemory {
  std::optional<std::int64_t> bytes;
  std::string refusal;
};
PredictedMemory predicted_memory(const AttentionCase& one, const std::string& implementation);

}  // namespace strobe::bench
