// Solves problems of unusual sizes from file to file, for the tests of the CPU and of the GPU.
#pragma once

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "solve/case_files.h"
#include "solve/solve.h"
#include "support/scratch.h"

namespace strobe::solve {

// {B, N, d}: dimensions of size 1, sizes that are not multiples of tiles, and d above 256, the limit of flash2.
inline const ProblemSize kSmallSizes[] = {{1, 1, 1},    {2, 1, 5},     {1, 3, 1},     {7, 65, 33},
                                          {3, 129, 64}, {2, 200, 256}, {3, 100, 257}, {2, 40, 1000}};

// Solves a random problem of this size. Returns the largest error compared with float64; NaN if a value is NaN, or if
// the answer file is missing or has the wrong size.
inline double error_of_solving(const ProblemSize& size, const SolveOptions& options) {
  const test::Scratch scratch;
  std::vector<float> inputs(static_cast<std::size_t>(3 * size.total()));
  uniform_values(1, 0, 3 * size.total(), inputs.data());
  const std::int32_t header[] = {static_cast<std::int32_t>(size.batch), static_cast<std::int32_t>(size.rows),
                                 static_cast<std::int32_t>(size.dim)};
  {
    std::ofstream file(scratch.path() / "in", std::ios::binary);
    file.write(reinterpret_cast<const char*>(header), sizeof(header));
    file.write(reinterpret_cast<const char*>(inputs.data()), static_cast<std::streamsize>(inputs.size() * 4));
  }
  const Solved solved = solve_file((scratch.path() / "in").string(), (scratch.path() / "out").string(), options);
  if (solved.size != size || scratch.entries() != 2) return NAN;
  std::vector<float> exact(static_cast<std::size_t>(size.total())), found(exact.size());
  float64_forward(size, inputs.data(), exact.data());
  std::ifstream file(scratch.path() / "out", std::ios::binary);
  file.read(reinterpret_cast<char*>(found.data()), static_cast<std::streamsize>(found.size() * 4));
  if (!file || file.peek() != EOF) return NAN;
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::abs(static_cast<double>(found[i]) - static_cast<double>(exact[i]));
    if (!(off <= largest)) largest = off;
  }
  return largest;
}

inline constexpr double kSmallError = 5e-5;  // a hundredth of the course's tolerance

}  // namespace strobe::solve
