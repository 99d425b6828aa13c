// What a sweep is made of. A problem is a case with its implementations, run by one child process; a cell is a problem
// with one of them, and has one row in the result file. With --launches every problem is there so many times, each a
// launch of it.
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

}  // namespace strobe::bench
