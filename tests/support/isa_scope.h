// Lists this machine's instruction sets, and selects one through STROBE_CPU_ISA.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "device/host/instruction_sets.h"

namespace strobe::test {

inline std::vector<std::string> available_isas() {
  std::vector<std::string> list;
  for (const InstructionSet& one : instruction_sets()) {
    if (one.available) list.emplace_back(one.name);
  }
  return list;
}

// Forces an instruction set until the end of the scope. No other thread may call the library in that time.
class IsaScope {
 public:
  explicit IsaScope(const std::string& name) {
    if (const char* before = std::getenv(kVariable)) before_ = before;
    ::setenv(kVariable, name.c_str(), 1);
  }
  ~IsaScope() { before_ ? ::setenv(kVariable, before_->c_str(), 1) : ::unsetenv(kVariable); }
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  static constexpr const char* kVariable = "STROBE_CPU_ISA";
  std::optional<std::string> before_;
};

}  // namespace strobe::test
