// The table of what a step holds beside the parameters: it is the memory plan too. Offsets count from one run of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lm/shape.h"
#include "strobe/dtype.h"

namespace strobe::lm {

struct Activation {
  std::string name;
  std::int64_t count = 0;  // elements
  DType dtype = DType::fp32;
  std::size_t first = 0;  // byte, a multiple of 64

  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
};

// Offsets of a block's tensors that the backward reads. T tokens, width d or d_ff.
struct BlockActivations {
  std::size_t x;                             // [T, d], what comes in
  std::size_t attention_inverse;             // [T], fp32
  std::size_t attention_normed, q, k, v, o;  // [T, d]; q and k after RoPE
  std::size_t lse;                           // [batch, heads, context], fp32
  std::size_t middle;                        // [T, d], after attention
  std::size_t feed_forward_inverse;          // [T], fp32
  std::size_t feed_forward_normed;           // [T, d]
  std::size_t w1, w3, gated;                 // [T, d_ff]
};

struct ActivationPlan {
  std::vector<Activation> table;
  std::vector<BlockActivations> blocks;
  std::size_t x, inverse, normed, logits, losses;          // after the last block; logits [T, vocabulary]
  std::size_t d_x, d_normed, d_q, d_k, d_v, d_o, d_gated;  // of the backward, used by one block after the other
  std::size_t bytes = 0;
};

// For a batch of sequences of shape.context tokens; dtype: of what products read and write.
ActivationPlan activation_plan(const ModelShape& shape, std::int64_t batch, DType dtype);

}  // namespace strobe::lm
