// The correctness gate: nothing is timed before its outputs agree with float64 values on sampled rows and keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/implementation.h"

namespace strobe::blas {
class BlasSession;
}

namespace strobe::bench {

// What one tensor's comparison gave.
struct Comparison {
  std::string tensor;       // "O", "LSE", "dQ", "dK", "dV"
  double error = 0;         // largest |x - reference| over the sample
  double limit = 0;         // that is accepted
  std::int64_t values = 0;  // compared
};

struct GateResult {
  std::vector<Comparison> comparisons;
  std::string fault;  // empty: correct
};

// Float64 values of a sample of a case, computed once and compared with every implementation. Sampled are rows of O,
// LSE and dQ and keys of dK and dV, of the first and the last KV head with all its query heads: the first and last
// positions and some between. Mask and score options are worked out here, apart from the library's. Gradients of a bias
// and of sinks are sums over what is not sampled: of them, only NaN is looked for.
class Gate {
 public:
  Gate(const Case& one, const Inputs& inputs);

  // Also refuses any value of any output tensor that is NaN (outputs are poisoned before the run).
  GateResult check(const Results& results) const;

  std::int64_t rows() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t keys() const { return static_cast<std::int64_t>(keys_.size()); }

 private:
  struct Row {
    std::int64_t batch, head, row;
    std::vector<double> o, dq;
    double lse = 0;
  };
  struct Key {
    std::int64_t batch, kv_head, key;
    std::vector<double> dk, dv;
  };
  struct Head;  // one KV head being computed

  void compute_head(const blas::BlasSession& session, const Inputs& inputs, std::int64_t batch, std::int64_t kv_head);

  Case case_;
  std::vector<Row> rows_;
  std::vector<Key> keys_;
};

// Accepted error relative to the largest reference value: rounding of scores, weights and sums in that type passes,
// a wrong mask, scale, head or missing block does not. tf32 rounds what it multiplies as fp16 does.
double gate_tolerance(DType dtype, bool tf32);

}  // namespace strobe::bench
