// Defines names and sizes of the course's 30 cases, and selects cases by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "solve/problem_file.h"

namespace strobe::solve {

inline constexpr double kTolerance = 5e-3;  // maximum absolute error of each element of an answer

struct TestCase {
  std::string name;  // "t01": name of its problem file; its answer is "t01.out"
  int group = 0;     // 0: t01-t10, 1: t11-t20, 2: t21-t30; time limits are per group
  ProblemSize size;
};

std::vector<TestCase> all_cases();

// Selects the cases named in a list such as "t01,t05-t10". Throws Error(invalid_argument) for an unknown name or a
// reversed range.
std::vector<TestCase> select_cases(const std::vector<TestCase>& cases, std::string_view subset);

// Returns the size with B and N multiplied by `factor`, rounded, and each at least 1, for small machines.
ProblemSize scaled(const ProblemSize& size, double factor);

}  // namespace strobe::solve
