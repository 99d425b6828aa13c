// Rotary position embedding of q and k: rotates the pairs (2i, 2i + 1) of a head at position p by p theta^(-2i/D).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// Returns the table [context, head_dim / 2, 2]: cosine and sine of each position and pair, on the host.
std::vector<float> rope_table(std::int64_t context, std::int64_t head_dim, double theta = 10000);

struct Rope {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  std::int64_t context = 0;         // position of token t is first_position + t % context
  std::int64_t first_position = 0;  // nonzero with a cache of earlier tokens
  std::int64_t stride = 0;          // elements between tokens; 0: heads * head_dim
  DType dtype = DType::fp32;
};

enum class Turn { forward, back };  // back: the gradient

// Rotates in place. x: [tokens, heads, head_dim], with q and k in one call if they are adjacent. table: rope_table() in
// memory of the tensors' device, long enough for every position.
void rope(const Place& place, const Rope& shape, const float* table, void* x, Turn turn);

}  // namespace strobe::ops
