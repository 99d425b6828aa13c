// What others on the machine did to a measurement, as notes for people. Used by bench and lm bench.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "measure/clock.h"
#include "measure/core_time.h"
#include "measure/quiet.h"

namespace strobe::cli {

// Where bench::Ceilings::disturbed().
inline constexpr const char* kSgemmNotAlone = "OpenBLAS sgemm was not left alone: shares of its rate are too high here";

// What others did on this process's cores during its life.
class Neighbours {
 public:
  std::vector<std::string> notes() const {
    constexpr double kShare = 0.2;   // of the cores: less than this is on every machine
    constexpr double kLeast = 0.25;  // seconds: ticks are hundredths
    const double seconds = now_seconds() - start_;
    const double others = cores_used_by_others(before_, core_time(cores_), seconds);
    const auto count = static_cast<double>(cores_.size());
    if (seconds < kLeast || others < kShare * count) return {};
    return {fmt::format("others used {:.1f} of {} cores meanwhile; trust ratios and minima more than times", others,
                        cores_.size())};
  }

 private:
  std::vector<int> cores_ = allowed_cores();  // before this process keeps to some of them
  CoreTime before_ = core_time(cores_);
  double start_ = now_seconds();
};

}  // namespace strobe::cli
