// Trains on several ranks, then in one process on the whole batch, and compares losses and parameters. `strobe lm train
// --ddp --verify` uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "lm/data/token_file.h"
#include "lm/data_parallel/data_parallel.h"
#include "lm/models/choices.h"
#include "lm/train/settings.h"
#include "lm/train/training_backend.h"

namespace strobe::lm {

// Largest accepted relative differences. Parameters have a bound in fp32 only: in the other precisions, rounding
// decides the sign of AdamW's step where a gradient is near 0.
struct VerifyBounds {
  double losses;
  std::optional<double> weights;  // norm of a parameter's difference / norm of the parameter; absent: no bound
  double scattered;               // as `weights`, between training with reduce-scatter and with all-reduce
};
VerifyBounds verify_bounds(Precision precision);

struct ParameterDifference {
  std::string name;
  double largest = 0, mean = 0;  // absolute differences of elements
  double relative = 0;           // norm of the difference divided by the norm of the reference
};

// Result of training one model on several ranks and in one process.
struct Verification {
  std::string model;                     // "language model" or "toy MLP with biases"
  std::vector<double> alone{}, ranks{};  // loss of each step in one process and on ranks
  std::vector<ParameterDifference> parameters{};
  VerifyBounds bounds;
  double losses = 0, weights = 0;  // largest relative differences between ranks and one process
  std::int64_t skipped = 0;        // fp16: steps that the ranks skipped because the gradient overflowed
  std::int64_t other_ranks = 0;    // number of ranks whose parameters are not bitwise equal to rank 0's
  std::string unsharded{};         // unsharded strategy that a sharded one is compared with; empty: not sharded
  double from_unsharded = 0;       // largest relative difference of a parameter from training with `unsharded`
  double most_from_unsharded = 0;  // bound of from_unsharded; 0: must be equal

  bool holds() const {
    return losses <= bounds.losses && (!bounds.weights || weights <= *bounds.weights) && other_ranks == 0 &&
           from_unsharded <= most_from_unsharded;
  }
};

// Train the language model, or the toy model, on all ranks and in one process, and compare. Collective; only rank 0
// gets a complete result. The toy model always runs in fp32 on the CPU.
Verification verify_language_model(comm::Communicator& communicator, const Settings& settings, const TokenFile& data,
                                   const BackendOptions& options, const ParallelOptions& exchange);
Verification verify_toy_mlp(comm::Communicator& communicator, std::int64_t steps, const ParallelOptions& exchange);

}  // namespace strobe::lm
