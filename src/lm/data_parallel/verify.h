// Whether ranks train to what one process does on the whole batch: both ways, then beside each other. `strobe lm train
// --ddp --verify` calls.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "lm/data_parallel/data_parallel.h"
#include "lm/learner.h"
#include "lm/settings.h"
#include "lm/token_file.h"

namespace strobe::lm {

inline constexpr double kMostDifference = 1e-5;           // of a parameter's norm, and of a loss; fp32
inline constexpr double kMostScatteredDifference = 1e-6;  // likewise, of scattered sums from those that were not

struct ParameterDifference {
  std::string name;
  double largest = 0, mean = 0;  // of elements
  double relative = 0;           // norm of the difference over that of the wanted values
};

// One model, trained twice.
struct Verification {
  std::string model;                     // "language model"
  std::vector<double> alone{}, ranks{};  // losses
  std::vector<ParameterDifference> parameters{};
  double relative = 0;           // the largest, of losses and parameters
  std::int64_t other_ranks = 0;  // whose weights are not rank 0's, to the bit
  std::string unsharded{};       // of a sharded strategy: the one that it is held to; else empty
  double from_unsharded = 0;     // the largest: of a parameter, of its norm
  double most_from_unsharded = 0;

  bool holds() const {
    return relative <= kMostDifference && other_ranks == 0 && from_unsharded <= most_from_unsharded;
  }
};

// All ranks call; what rank 0 gets is complete. Settings: fp32. The toy model is always on
// the CPU.
Verification verify_language_model(comm::Communicator& communicator, const Settings& settings, const TokenFile& data,
                                   const LearnerOptions& options, const ParallelOptions& exchange);
Verification verify_toy_mlp(comm::Communicator& communicator, std::int64_t steps, const ParallelOptions& exchange);

}  // namespace strobe::lm
