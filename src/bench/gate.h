// The correctness gate: sampled outputs must agree with float64 values before anything is timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/implementation.h"

namespace strobe::blas {
class BlasSession;
}

namespace strobe::bench {

// Comparison of one tensor.
struct Comparison {
  std::string tensor;       // "O", "LSE", "dQ", "dK", "dV"
  double error = 0;         // largest |x - reference| over the sample
  double limit = 0;         // accepted error
  std::int64_t values = 0;  // number of compared values
};

struct GateResult {
  std::vector<Comparison> comparisons;
  std::string fault;  // empty: correct
};

// Float64 values of a sample of a case, computed once and compared with every implementation. The sample has rows of O,
// LSE and dQ and keys of dK and dV, of the first and the last KV head with all query heads of each. It includes the
// first and last positions and some between. Mask and score options are implemented here, independently of the library.
// Gradients of a bias and of sinks sum over unsampled rows, so they are only checked for NaN.
class Gate {
 public:
  Gate(const Case& one, const Inputs& inputs);

  // Compares an implementation's outputs with the sample. Also rejects a NaN in any output, since outputs are poisoned
  // with NaN before the run.
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
  struct Head;  // one KV head

  void compute_head(const blas::BlasSession& session, const Inputs& inputs, std::int64_t batch, std::int64_t kv_head);

  Case case_;
  std::vector<Row> rows_;
  std::vector<Key> keys_;
};

// Returns the accepted error relative to the largest reference value. It accepts rounding of scores, probabilities and
// sums to that type, but not a wrong mask, scale or head, or a missing block. TF32 has the tolerance of fp16, which has
// the same mantissa width.
double gate_tolerance(DType dtype, bool tf32);

}  // namespace strobe::bench
