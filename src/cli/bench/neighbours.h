// Notes about other processes that disturbed a measurement, for `bench` and `lm bench`.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/clock.h"
#include "measure/core_time.h"
#include "measure/quiet.h"

namespace strobe::cli {

// The note for results with bench::Ceilings::disturbed().
inline constexpr const char* kSgemmNotAlone =
    "another process ran while OpenBLAS sgemm was measured, so shares of its rate are too high";

// Measures how much other processes use this process's cores while this object exists.
class Neighbours {
 public:
  std::vector<std::string> notes() const {
    constexpr double kShare = 0.2;   // share of the cores; the usual background load is lower
    constexpr double kLeast = 0.25;  // seconds; ticks of 10 ms are too coarse for less
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
