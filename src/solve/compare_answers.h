// Compares outputs with answers, element by element. `strobe cases check` and `judge` use it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace strobe::solve {

struct Mismatch {
  std::int64_t index;
  float found, expected;
};

struct Comparison {
  static constexpr std::size_t kShown = 5;

  std::int64_t output_bytes = 0, answer_bytes = 0;  // if they differ, all fields below are empty
  std::int64_t mismatches = 0;                      // elements whose error exceeds the tolerance, or NaN
  double largest = 0;             // largest error; infinity if any value is not finite, including a NaN in the answer
  std::vector<Mismatch> first{};  // at most kShown

  std::int64_t count() const { return answer_bytes / 4; }
  bool same_size() const { return output_bytes == answer_bytes; }
  bool passes() const { return same_size() && mismatches == 0; }
};

// Compares two files. Throws Error(invalid_argument) if a file cannot be read or the answer is not a whole number of
// floats.
Comparison compare_answers(const std::string& output, const std::string& answer, double tolerance);

// Reads a whole answer, so later changes of its file have no effect. Throws as compare_answers() does.
std::vector<float> read_answer(const std::string& answer);

// Compares an open output. `output` is a regular file, open for reading; the caller closes it. Throws Error(runtime) if
// it cannot be read.
Comparison compare_with_answer(int output, std::span<const float> answer, double tolerance);

}  // namespace strobe::solve
