// The inputs of a case: values drawn from its seed, everything that no row may use filled with NaN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/problem.h"
#include "strobe/attention.h"
#include "support/case.h"
#include "support/tensor.h"

namespace strobe::test {

struct Data {
  explicit Data(const Case& description);

  Case c;
  Tensor q, k, v, d_o;
  Tensor bias;   // where c.bias
  Tensor d_lse;  // where c.d_lse: [B, Hq, Sq, 1]
  std::vector<float> alibi_slopes, sinks;
  // Lengths, or cumulative offsets in a packed batch, in the width the case asks for.
  std::vector<std::int32_t> index_q32, index_k32;
  std::vector<std::int64_t> index_q64, index_k64;

  std::vector<std::int32_t> first32;
  std::vector<std::int64_t> first64;
  std::vector<unsigned char> mask;  // where c.mask
  std::uint64_t dropout_seed = 0;

  Attention attention() const;
  // Adds to a query's problem what the oracle reads and a query does not.
  void complete(Problem& problem) const;

  // The boolean mask as a view, and whether it allows a pair of sequence b.
  MaskView mask_view() const;
  bool mask_allows(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;

  Shape shape_q() const;
  Shape shape_k() const;
  Shape shape_v() const;
  Shape shape_o() const;
  Shape shape_lse() const;

  // First row of sequence b in its views: 0, or the cumulative offset.
  std::int64_t begin_q(std::int64_t b) const;
  std::int64_t begin_k(std::int64_t b) const;
  std::int64_t view_batch(std::int64_t b) const { return c.packed() ? 0 : b; }

  // Call after changing values: what is unchanged by a run is what was there now.
  void remember();
  // Empty, or which input a run has written to.
  std::string changed() const;
};

}  // namespace strobe::test
