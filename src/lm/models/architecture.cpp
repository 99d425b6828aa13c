#include "lm/models/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

constexpr std::array<const char*, 2> kArchitectureNames{"llama", "gpt2"};  // in the order of Architecture

}  // namespace

std::vector<std::string> architecture_names() { return {kArchitectureNames.begin(), kArchitectureNames.end()}; }

const char* name_of(Architecture architecture) { return kArchitectureNames[static_cast<std::size_t>(architecture)]; }

Architecture architecture_of(std::string_view name) {
  const auto found = std::find(kArchitectureNames.begin(), kArchitectureNames.end(), name);
  if (found == kArchitectureNames.end()) {
    fail(ErrorCode::invalid_argument, "arch {}: valid: {}", printable_value(name), fmt::join(kArchitectureNames, ", "));
  }
  return static_cast<Architecture>(found - kArchitectureNames.begin());
}

}  // namespace strobe::lm
