// Rough cost models. The constants come from the tables in docs/.
#include "bench/sweep/prediction.h"

#include <algorithm>

#include "bench/implementation.h"
#include "bench/memory_model.h"
#include "bench/onednn_peer.h"
#include "bench/verdict.h"

namespace strobe::bench {
namespace {

constexpr double kStart = 0.1;    // seconds per cell, independent of its size
constexpr double kWarmUp = 0.2;   // seconds per region, at least
constexpr int kUntimedCalls = 5;  // per region

double share_of_matmul_rate(const std::string& implementation, Device device) {
  if (implementation == "reference") return 0.003;
  if (implementation == "standard" || implementation == "frugal" || implementation == kOnednnPeer)
    return device == Device::cuda ? 0.05 : 0.1;
  return is_peer(implementation) ? 0.3 : 0.5;
}

}  // namespace

double assumed_matmul_rate(Device device) { return device == Device::cuda ? 4e14 : 1e11; }

double predicted_call(const Case& one, const std::string& implementation, double product_rate) {
  const double flops =
      (has_forward(one.passes) ? forward_flops(one) : 0) + (has_backward(one.passes) ? backward_flops(one) : 0);
  return flops / (product_rate * share_of_matmul_rate(implementation, one.device));
}

double predicted_seconds(const Case& one, const std::string& implementation, const StoppingRule& rule,
                         double product_rate) {
  const double call = predicted_call(one, implementation, product_rate);
  const int regions = one.passes == Passes::both ? 2 : 1;
  // With both passes, each is timed separately and both as one region.
  const double sample = regions * call;
  const double most = rule.repeats > 0 ? rule.repeats * sample : std::min(rule.time_limit, rule.least_samples * sample);
  return kStart + std::max(regions * kWarmUp, kUntimedCalls * call) + most;
}

double predicted_seconds(const Problem& problem, const StoppingRule& rule) {
  double sum = 0;
  for (const std::string& name : problem.implementations) {
    sum += predicted_seconds(problem.one, name, rule, assumed_matmul_rate(problem.one.device));
  }
  return sum;
}

PredictedMemory predicted_memory(const Case& one, const std::string& implementation) {
  if (implementation == "torch-naive" && !one.options.any()) {
    const MemoryModel model = predict_torch_naive(one);
    return {model.forward_bytes() + model.backward_bytes(), {}};
  }
  if (is_peer(implementation)) {
    const TensorBytes bytes = tensor_bytes(one);
    return {bytes.forward() + (has_backward(one.passes) ? bytes.backward_extra() : 0), {}};
  }
  try {
    return {held_bytes(implementation, one), {}};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return {std::nullopt, error.what()};
  }
}

}  // namespace strobe::bench
