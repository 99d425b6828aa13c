// What a sweep is made of. A problem is a case with its implementations, run by one child process; a cell is a problem
// with one of them, and has one row in the result file. With --launches every problem is there so many times, each a
// launch of it.
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
  Json config;                               // of its rows, with "shrink"
  int launch = 1, launches = 1;              // the first of one
};

// "batch 1, 4 heads x 64, sequence 512, fp32", with the launch where there are several.
std::string describe(const Problem& problem);

// `shrink` divides the batch, down to 1, and what is left of it the sequences. Those of 512 or more stay at 512 or
// more.
Problem make_problem(Case one, std::vector<std::string> implementations, std::int64_t shrink = 1);

// What tells cells apart: the whole configuration, the implementation and the launch. A row's own keys give the same
// text; one that says nothing of launches is the first.
std::string cell_key(const Problem& problem, const std::string& implementation);
std::string cell_key(const Json& row);

// "launch" of a row: {"number": 2, "of": 5}.
Json launch_json(const Problem& problem);

// Problems without repetition, in the order in which they were added.
class ProblemList {
 public:
  // Where a problem of the same configuration is there already, that one gets the implementations which it lacks.
  // Returns how many cells were there before.
  std::size_t add(Problem problem);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
  std::unordered_map<std::string, std::size_t> places_;  // by configuration
};

// All of them once for each launch, so that a sweep that is ended has whole grids.
std::vector<Problem> launched(const std::vector<Problem>& problems, int launches);

std::size_t count_cells(const std::vector<Problem>& problems);

// Share `number` of `count` (1 is the first) in the order of `problems`: by falling cost, each problem goes to
// whichever share has least so far. Depends on the problems alone, so that the nodes of a job array agree.
std::vector<Problem> share_of(const std::vector<Problem>& problems, const StoppingRule& rule, int number, int count);

// How long a cell will take and how much memory it will hold, roughly: for dry runs, for the time that is left, and for
// sharing out a grid. No result depends on it.

// FLOP/s of a matrix product that stand in where the machine's own rate was not measured.
double assumed_product_rate(Device device);

// Seconds of a forward and, where it is timed, a backward: nominal work at the share of the product rate that the
// implementation is known to reach.
double predicted_call(const Case& one, const std::string& implementation, double product_rate);

// Seconds of a cell: its share of the child's start, check, warm-up, samples.
double predicted_seconds(const Case& one, const std::string& implementation, const StoppingRule& rule,
                         double product_rate);

// All cells of a problem, at the assumed rate: the same number on every machine.
double predicted_seconds(const Problem& problem, const StoppingRule& rule);

// Bytes of tensors and workspace that a run holds. For `torch-naive` its predicted peak; for other peers the bytes of
// the tensors only, a lower bound. A kernel that refuses the case has a reason instead.
struct PredictedMemory {
  std::optional<std::int64_t> bytes;
  std::string refusal;
};
PredictedMemory predicted_memory(const Case& one, const std::string& implementation);

}  // namespace strobe::bench
