// The inputs of a case, drawn from its seed. Elements that no row may use are NaN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strobe/attention.h"
#include "support/case.h"
#include "support/tensor.h"

namespace strobe::test {

struct Data {
  explicit Data(const Case& description);

  Case c;
  Tensor q, k, v, d_o;
  Tensor bias;  // only if the case has a bias
  std::vector<float> alibi_slopes, sinks;
  // Lengths, or cumulative offsets of a packed batch, with the case's number of bits.
  std::vector<std::int32_t> index_q32, index_k32;
  std::vector<std::int64_t> index_q64, index_k64;

  Attention attention() const;

  Shape shape_q() const;
  Shape shape_k() const;
  Shape shape_v() const;
  Shape shape_o() const;

  // First row of sequence b in its views: 0, or the cumulative offset.
  std::int64_t begin_q(std::int64_t b) const;
  std::int64_t begin_k(std::int64_t b) const;
  std::int64_t view_batch(std::int64_t b) const { return c.packed() ? 0 : b; }

  // Stores the present values for changed(). Call it after changing values.
  void remember();
  // Describes the first input that a run has written to; empty if there is none.
  std::string changed() const;
};

}  // namespace strobe::test
