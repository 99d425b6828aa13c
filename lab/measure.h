// Checks a rung against float64 and then times it. The result is one JSON row. main.cpp calls measure() for each rung.
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
  double limit = 30;  // seconds per run; if a run takes longer, a smaller case runs and its time is scaled up
  StoppingRule rule{.time_limit = 5};
};

// The inputs of a case and its float64 answer, computed once and used by all rungs.
struct Subject {
  explicit Subject(const CourseCase& size) : inputs(size), answer(inputs.problem()) {}
  Inputs inputs;
  Answer answer;
};

class Subjects {
 public:
  const Subject& of(const CourseCase& size);

 private:
  std::map<std::tuple<int, int, int>, std::unique_ptr<Subject>> made_;
};

// A function to measure, and a row that identifies it: "kind" and its name.
struct Candidate {
  Json row;
  Run run;
};

// Returns the candidate's row with "case", "flops" and "status" added. "ok": with error and times; "wrong": with the
// error; "failed": with the reason. If a smaller case ran instead, "scaled_from" is that case, and "launches" and
// "shared_bytes" are its figures.
Json measure(const Candidate& candidate, const CourseCase& size, Subjects& subjects, const Settings& settings);

Json case_json(const CourseCase& size);

}  // namespace strobe::lab
