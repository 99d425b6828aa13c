// Trains on ranks and in one process on the whole batch, and compares losses and weights. `strobe lm train --ddp
// --verify` calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "lm/data/token_file.h"
#include "lm/data_parallel/data_parallel.h"
#include "lm/models/choices.h"
#include "lm/train/learner.h"
#include "lm/train/settings.h"

namespace strobe::lm {

// Largest accepted relative differences. For a gradient near 0, rounding decides the sign of AdamW's step. In lower
// precision only losses are bounded for this reason.
struct VerifyBounds {
  double losses;
  std::optional<double> weights;  // relative to the parameter's norm; none: not bounded
  double scattered;               // weights by reduce-scatter from those by all-reduce
};
VerifyBounds verify_bounds(Precision precision);

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
  VerifyBounds bounds;
  double losses = 0, weights = 0;  // largest relative differences from one process
  std::int64_t skipped = 0;        // fp16: steps of the ranks whose gradient overflowed
  std::int64_t other_ranks = 0;    // ranks whose weights differ from rank 0's in any bit
  std::string unsharded{};         // strategy that a sharded one must equal; else empty
  double from_unsharded = 0;       // largest difference of a parameter, relative to its norm
  double most_from_unsharded = 0;

  bool holds() const {
    return losses <= bounds.losses && (!bounds.weights || weights <= *bounds.weights) && other_ranks == 0 &&
           from_unsharded <= most_from_unsharded;
  }
};

// All ranks call; only rank 0 gets a complete result. The toy model is always fp32 on the CPU.
Verification verify_language_model(comm::Communicator& communicator, const Settings& settings, const TokenFile& data,
                                   const LearnerOptions& options, const ParallelOptions& exchange);
Verification verify_toy_mlp(comm::Communicator& communicator, std::int64_t steps, const ParallelOptions& exchange);

}  // namespace strobe::lm
