// Tests of what both architectures have.
#pragma once

#include "lm/models/shape.h"

namespace strobe::lm {

inline constexpr Architecture kArchitectures[] = {Architecture::llama, Architecture::gpt2};

constexpr ModelShape as(Architecture architecture, ModelShape shape) {
  shape.architecture = architecture;
  return shape;
}

}  // namespace strobe::lm
