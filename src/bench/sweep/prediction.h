// Rough time and memory of a cell, for dry runs, for the remaining time, and to partition a grid. No result depends on
// it.
#pragma once

#include <optional>
#include <string>

#include "bench/ceilings.h"
#include "bench/sweep/problem.h"

namespace strobe::bench {

// FLOP/s of a matmul, if the machine's rate was not measured.
double assumed_matmul_rate(Device device);

// Seconds of a forward and, if timed, a backward: nominal FLOPs at the implementation's typical share of the matmul
// rate.
double predicted_call(const Case& one, const std::string& implementation, double product_rate);

// Seconds of a cell: its share of the child's start, check, warm-up, samples.
double predicted_seconds(const Case& one, const std::string& implementation, const StoppingRule& rule,
                         double product_rate);

// All cells of a problem at the assumed rate: the same on every machine.
double predicted_seconds(const Problem& problem, const StoppingRule& rule);

// Bytes of tensors and workspace of a run. For `torch-naive` its predicted peak; for other peers only the tensors, a
// lower bound. A kernel that rejects the case has a reason instead.
struct PredictedMemory {
  std::optional<std::int64_t> bytes;
  std::string refusal;
};
PredictedMemory predicted_memory(const Case& one, const std::string& implementation);

}  // namespace strobe::bench
