// Solves a problem file: reads it and writes an answer file. `strobe solve` and the course's program hw4 use it.
#pragma once

#include <optional>
#include <string>

#include "solve/solver.h"

namespace strobe::solve {

struct SolveOptions {
  std::optional<Device> device{};  // default: a GPU if one is usable, otherwise the CPU
  std::string kernel{};            // empty: the library chooses
};

struct Solved {
  ProblemSize size;
  Device device = Device::cpu;
  std::string kernel;
  StageTimes times;
  double sync = 0;  // seconds of fsync after the last write
};

// Solves a problem file. Throws Error(invalid_argument) or Error(unsupported) for invalid files or options, other codes
// for failures at run time. After an error the output file is unchanged.
Solved solve_file(const std::string& input, const std::string& output, const SolveOptions& options = {});

}  // namespace strobe::solve
