// Every architecture, for tests of what all of them have.
#pragma once

#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

inline const std::vector<Architecture> kArchitectures = [] {
  std::vector<Architecture> all;
  for (const std::string& name : architecture_names()) all.push_back(architecture_of(name));
  return all;
}();

constexpr ModelShape as(Architecture architecture, ModelShape shape) {
  shape.architecture = architecture;
  return shape;
}

}  // namespace strobe::lm
