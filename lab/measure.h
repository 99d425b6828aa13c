// Checks a rung against float64, then times it: one JSON row. The driver (main.cpp) calls it for each rung.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "core/json.h"
#include "lab/case.h"
#include "lab/check.h"
#include "lab/rung.h"
#include "measure/stopping_rule.h"

namespace strobe::lab {

struct Settings {
  double limit = 30;  // seconds; a longer run is replaced by one of a smaller case, whose time is scaled up
  StoppingRule rule{.time_limit = 5};
};

// A case with its answer, computed once and used by all rungs.
struct Subject {
  explicit Subject(const Case& size) : inputs(size), answer(inputs.problem()) {}
  Inputs inputs;
  Answer answer;
};

class Subjects {
 public:
  const Subject& of(const Case& size);

 private:
  std::map<std::tuple<int, int, int>, std::unique_ptr<Subject>> made_;
};

// A function to measure and the first keys of its row: "kind" and its name.
struct Candidate {
  Json row;
  Run run;
};

// Returns `row` with "case", "status" and, if ok, the figures; if wrong, the error; if failed, the reason. "launches"
// and "shared_bytes" are those of the case that ran, which is "scaled_from" if that is given.
Json measure(const Candidate& candidate, const Case& size, Subjects& subjects, const Settings& settings);

Json case_json(const Case& size);

}  // namespace strobe::lab
