// A problem file in, an answer file out: what `strobe solve` and `hw4` do.
#pragma once

#include <optional>
#include <string>

#include "solve/solver.h"

namespace strobe::solve {

struct SolveOptions {
  std::optional<Device> device{};  // default: the GPU where one can be used, else the CPU
  std::string kernel{};            // empty: the library chooses
};

struct Solved {
  ProblemSize size;
  Device device = Device::cpu;
  std::string kernel;
  StageTimes times;
  double sync = 0;  // seconds until the answer was on the disk, after the last write
};

// Throws Error: invalid_argument or unsupported for what was asked, otherwise for what went wrong on the way. The
// output is then what it was before.
Solved solve_file(const std::string& input, const std::string& output, const SolveOptions& options = {});

}  // namespace strobe::solve
