// Checks a rung against float64, then times it: one JSON row. The driver (main.cpp) calls for every rung in turn.
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
  double limit = 30;  // seconds: a run that would take longer is done on a smaller case, and its time said to be scaled
  StoppingRule rule{.time_limit = 5};
};

// A case with its answer, made once and used by all rungs.
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

// What is run and how its row begins ("kind" and whatever names it).
struct Candidate {
  Json row;
  Run run;
};

// `row` with "case", "status" and, by status: ok, with the figures; wrong, with the error alone; failed, with the
// reason.
Json measure(const Candidate& candidate, const Case& size, Subjects& subjects, const Settings& settings);

Json case_json(const Case& size);

}  // namespace strobe::lab
