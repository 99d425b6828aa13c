// The inputs of a case, drawn from its seed. Elements that no row may use are NaN.
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
  Tensor bias;   // defined if c.bias
  Tensor d_lse;  // [B, Hq, Sq, 1]; defined if c.d_lse
  std::vector<float> alibi_slopes, sinks;
  // Lengths, or cumulative offsets of a packed batch, as 32-bit or 64-bit integers (index_bits of the case).
  std::vector<std::int32_t> index_q32, index_k32;
  std::vector<std::int64_t> index_q64, index_k64;

  std::vector<std::int32_t> first32;
  std::vector<std::int64_t> first64;
  std::vector<unsigned char> mask;  // defined if c.mask
  std::uint64_t dropout_seed = 0;

  Attention attention() const;
  // Adds the fields that the oracle reads but that validate_query() leaves empty.
  void complete(Problem& problem) const;

  // mask_view() returns the boolean mask; mask_allows() returns true if it allows row i of head h and sequence b to use
  // key j.
  MaskView mask_view() const;
  bool mask_allows(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;

  Shape shape_q() const;
  Shape shape_k() const;
  Shape shape_v() const;
  Shape shape_o() const;
  Shape shape_lse() const;

  // Returns the first row of sequence b in its view: the cumulative offset in a packed batch, else 0.
  std::int64_t begin_q(std::int64_t b) const;
  std::int64_t begin_k(std::int64_t b) const;
  std::int64_t view_batch(std::int64_t b) const { return c.packed() ? 0 : b; }

  // Stores the present values for changed(). Call it after every intended change of the inputs.
  void remember();
  // Describes the first input whose values differ from the stored ones; empty if there is none.
  std::string changed() const;
};

}  // namespace strobe::test
