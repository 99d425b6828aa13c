// Notes about other processes that disturbed a measurement. Used by bench and lm bench.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "measure/clock.h"
#include "measure/core_time.h"
#include "measure/quiet.h"

namespace strobe::cli {

// Printed if bench::Ceilings::disturbed().
inline constexpr const char* kSgemmNotAlone =
    "another process ran while OpenBLAS sgemm was measured: shares of its rate are too high";

// Measures how much other processes used this process's cores during the lifetime of this object.
class Neighbours {
 public:
  std::vector<std::string> notes() const {
    constexpr double kShare = 0.2;   // share of the cores; every machine has a lower background load
    constexpr double kLeast = 0.25;  // seconds; ticks are hundredths of a second
    const double seconds = now_seconds() - start_;
    const double others = cores_used_by_others(before_, core_time(cores_), seconds);
    const auto count = static_cast<double>(cores_.size());
    if (seconds < kLeast || others < kShare * count) return {};
    return {fmt::format("other processes used {:.1f} of {} cores; trust ratios and minima more than times", others,
                        cores_.size())};
  }

 private:
  std::vector<int> cores_ = allowed_cores();  // recorded before this process pins itself to some of them
  CoreTime before_ = core_time(cores_);
  double start_ = now_seconds();
};

}  // namespace strobe::cli
