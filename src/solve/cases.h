// The course's 30 cases: their sizes, their names, which of them a user means. `strobe cases` calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "solve/problem_file.h"

namespace strobe::solve {

inline constexpr double kTolerance = 5e-3;  // absolute, of every element of an answer

struct TestCase {
  std::string name;  // "t01", which is its problem file too; its answer is "t01.out"
  int group = 0;     // 0: t01-t10, 1: t11-t20, 2: t21-t30; time limits are by group
  ProblemSize size;
};

std::vector<TestCase> all_cases();

// "t01,t05-t10" of those. Throws Error(invalid_argument) where a name is not one of theirs.
std::vector<TestCase> select_cases(const std::vector<TestCase>& cases, std::string_view subset);

// B and N times `factor`, at least 1 each: the same shapes for small machines.
ProblemSize scaled(const ProblemSize& size, double factor);

}  // namespace strobe::solve
