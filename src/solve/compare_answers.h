// Compares outputs with answers, element by element. `strobe cases check` and `strobe cases judge` use it.
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

  std::int64_t output_bytes = 0, answer_bytes = 0;  // file sizes; if they differ, elements are not compared
  std::int64_t mismatches = 0;                      // elements whose error exceeds the tolerance
  double largest = 0;                               // largest error; infinity if any difference is infinite or NaN
  std::vector<Mismatch> first{};                    // the first mismatches, at most kShown

  std::int64_t count() const { return answer_bytes / 4; }
  bool same_size() const { return output_bytes == answer_bytes; }
  bool passes() const { return same_size() && mismatches == 0; }
};

// Compares two files. Throws Error(invalid_argument) if one cannot be opened or is not a regular file, or if the
// answer's size is not a multiple of 4 bytes. Throws Error(runtime) if reading fails.
Comparison compare_answers(const std::string& output, const std::string& answer, double tolerance);

// Reads an answer into memory, so that later changes of its file have no effect. Throws the same errors as
// compare_answers().
std::vector<float> read_answer(const std::string& answer);

// Compares an output with an answer in memory. `output` is the descriptor of a regular file, at its beginning; the
// caller closes it. Throws Error(runtime) if reading fails.
Comparison compare_with_answer(int output, std::span<const float> answer, double tolerance);

}  // namespace strobe::solve
