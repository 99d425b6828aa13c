// Compares outputs with answers, element by element. `strobe cases check` and `judge` call.
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

  std::int64_t output_bytes = 0, answer_bytes = 0;  // all below is empty where they are not the same
  std::int64_t mismatches = 0;                      // elements further off than the tolerance, or NaN
  double largest = 0;             // error; infinity where something is not finite, a NaN in the answer too
  std::vector<Mismatch> first{};  // at most kShown

  std::int64_t count() const { return answer_bytes / 4; }
  bool same_size() const { return output_bytes == answer_bytes; }
  bool passes() const { return same_size() && mismatches == 0; }
};

// Throws Error(invalid_argument) where a file cannot be read or the answer is no whole number of floats.
Comparison compare_answers(const std::string& output, const std::string& answer, double tolerance);

// Reads a whole answer, so that a later change of its file has no effect. Throws as compare_answers() does.
std::vector<float> read_answer(const std::string& answer);

// `output` is a regular file, open for reading; the caller closes it. Throws Error(runtime) if it cannot be read.
Comparison compare_with_answer(int output, std::span<const float> answer, double tolerance);

}  // namespace strobe::solve
