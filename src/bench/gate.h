// The correctness gate of the benchmark: before an implementation is timed, sampled outputs must agree with a float64
// reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/implementation.h"

namespace strobe::blas {
class BlasSession;
}

namespace strobe::bench {

// Result of comparing one output tensor with the reference.
struct Comparison {
  std::string tensor;       // "O", "LSE", "dQ", "dK", "dV"
  double error = 0;         // largest |x - reference| over the sample
  double limit = 0;         // accepted error
  std::int64_t values = 0;  // number of compared values
};

struct GateResult {
  std::vector<Comparison> comparisons;
  std::string fault;  // error message; empty if the outputs are correct
};

// Float64 reference values of a sample of a case, computed once and compared with every implementation. The sample has
// rows of O, LSE and dQ and rows of dK and dV. It covers all query heads of two KV heads: the first one of the first
// sequence and the last one of the last sequence. Positions include the first, the last and some between. Mask and
// score options are implemented here, independently of the library. Gradients of bias and sinks sum over unsampled
// rows, so they are only checked for NaN.
class Gate {
 public:
  Gate(const AttentionCase& one, const Inputs& inputs);

  // Compares an implementation's outputs with the sample. Also rejects a NaN in any output except LSE: outputs are
  // filled with NaN before the run, so elements that were not written are found.
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

  AttentionCase case_;
  std::vector<Row> rows_;
  std::vector<Key> keys_;
};

// Returns the accepted error relative to the largest reference value. It permits scores, probabilities and sums rounded
// to `dtype`, but not a wrong mask, scale or head, or a missing block. TF32 has the tolerance of fp16, because both
// have 10 mantissa bits.
double gate_tolerance(DType dtype, bool tf32);

}  // namespace strobe::bench
