// Rotary position embedding (RoPE) of q and k, called by lm/. Elements 2i and 2i + 1 of a head of D elements at
// position p are rotated by the angle p theta^(-2i/D).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// Returns the table [context, head_dim / 2, 2] with the cosine and sine for each position and pair, in host memory.
std::vector<float> rope_table(std::int64_t context, std::int64_t head_dim, double theta = 10000);

struct Rope {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  std::int64_t context = 0;         // position of token t is first_position + t % context
  std::int64_t first_position = 0;  // nonzero if earlier tokens are in a KV cache
  std::int64_t stride = 0;          // elements between tokens; 0: heads * head_dim
  DType dtype = DType::fp32;
};

enum class Rotation { forward, back };  // back: inverse rotation, for the gradient

// Rotates x [tokens, heads, head_dim] in place. If q and k are adjacent, one call with twice the number of heads
// rotates both. `table` is rope_table() in memory of the tensors' device, and its context must include every position.
void rope(const ExecutionContext& execution, const Rope& shape, const float* table, void* x, Rotation rotation);

}  // namespace strobe::ops
