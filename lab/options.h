// The command line of strobe-lab. Used by main.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/measure.h"

namespace strobe::lab {

struct Options {
  std::vector<CourseCase> cases{};
  std::vector<const Rung*> rungs{};
  Settings settings{};
  std::optional<std::string> input{}, output{};  // files for a single rung; both or none
  std::string help{};                            // the help text if it was requested, otherwise empty
  bool list = false, json = false, once = false, ablation = false, tiles = false, timing = false;
};

// Throws Error(invalid_argument) if a flag or value is not valid.
Options parse_options(const std::vector<std::string>& words);

}  // namespace strobe::lab
