// What a sweep is made of. A problem is a case with its implementations, run by one child process; a cell is a problem
// with one of them, and has one row in the result file.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/case.h"
#include "measure/stopping_rule.h"

namespace strobe::bench {

struct Problem {
  Case one;
  std::vector<std::string> implementations;  // canonical names
  Json config;                               // of its rows, with "shrink"
};

// Batch and sequences are divided by `shrink`, down to 1.
Problem make_problem(Case one, std::vector<std::string> implementations, std::int64_t shrink = 1);

// What tells cells apart: the whole configuration and the implementation. A row's own keys give the same text.
std::string cell_key(const Json& config, const std::string& implementation);

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

std::size_t count_cells(const std::vector<Problem>& problems);

// Share `number` of `count` (1 is the first) in the order of `problems`: by falling cost, each problem goes to
// whichever share has least so far. Depends on the problems alone, so that the nodes of a job array agree.
std::vector<Problem> share_of(const std::vector<Problem>& problems, const StoppingRule& rule, int number, int count);

}  // namespace strobe::bench
