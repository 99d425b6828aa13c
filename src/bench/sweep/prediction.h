// How long a cell will take and how much memory it will hold, roughly: for dry runs, for the time that is left, and for
// sharing out a grid. No result depends on it.
#pragma once

#include <optional>
#include <string>

#include "bench/ceilings.h"
#include "bench/sweep/problem.h"

namespace strobe::bench {

// FLOP/s of a matrix product that stand in where the machine's own rate was not measured.
double assumed_product_rate(Device device);

// Seconds of a forward and, where it is timed, a backward: nominal work at the share of the product rate that the
// implementation is known to reach.
double predicted_call(const Case& one, const std::string& implementation, double product_rate);

// Seconds of a cell: its share of the child's start, check, warm-up, samples.
double predicted_seconds(const Case& one, const std::string& implementation, const StoppingRule& rule,
                         double product_rate);

// All cells of a problem, at the assumed rate: the same number on every machine.
double predicted_seconds(const Problem& problem, const StoppingRule& rule);

// Bytes of tensors and workspace that a run holds. For `torch-naive` its predicted peak; for other peers the bytes of
// the tensors only, a lower bound. A kernel that refuses the case has a reason instead.
struct PredictedMemory {
  std::optional<std::int64_t> bytes;
  std::string refusal;
};
PredictedMemory predicted_memory(const Case& one, const std::string& implementation);

}  // namespace strobe::bench
