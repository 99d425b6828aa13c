// The test cases of the course and their inputs. Used by strobe-lab and its tests.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/rung.h"

namespace strobe::lab {

struct CourseCase {
  std::string name;  // "t28", "t28 scaled", or "" for a case given by its sizes
  int batch = 0, rows = 0, dim = 0;

  double scores() const { return 1.0 * batch * rows * rows; }  // the time is proportional to this and to dim
  double flops() const { return 4.0 * scores() * dim; }        // nominal: two matmuls
};

// The cases t01 to t30.
std::span<const CourseCase> course_cases();

// Parses "t28", "B,N,d" or "bB sN dD" (core/case_text.h); each size must be at least 1. `scale`, in (0, 1], reduces the
// work to about this fraction. It first reduces the batches, then halves the rows repeatedly, but not below 128.
// Throws Error(invalid_argument).
CourseCase parse_case(std::string_view text, double scale = 1);

// Returns `full`, or a smaller case if `full` would take more than `limit` seconds. `seconds_of` runs a case and
// returns its time. Runs one batch of at most 128 rows first, then doubles the rows, then the batches, while the next
// case is predicted to take at most `limit`. Predictions assume that time grows with the number of scores. The time per
// score depends on the rows N: a launch of N / 32 blocks may not fill the GPU. The time per score hardly depends on the
// batches in the rungs from `shared` to `registers`, which compute batches one after the other. Batches are therefore
// reduced first.
CourseCase fitting_case(const CourseCase& full, double limit,
                        const std::function<double(const CourseCase&)>& seconds_of);

// Q, K and V uniform in [-3, 3). The values depend on the sizes only and are the same on every machine.
struct Inputs {
  explicit Inputs(const CourseCase& size);

  RungProblem problem() const { return {size.batch, size.rows, size.dim, q.data(), k.data(), v.data()}; }

  CourseCase size;
  std::vector<float> q, k, v;
};

}  // namespace strobe::lab
