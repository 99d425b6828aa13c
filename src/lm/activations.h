// The table of what a step holds beside the parameters: it is the memory plan too. Offsets count from one run of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lm/parameters.h"
#include "lm/recompute.h"
#include "strobe/dtype.h"

namespace strobe::lm {

struct Activation {
  std::string name;
  std::int64_t count = 0;  // elements
  DType dtype = DType::fp32;
  std::size_t first = 0;  // byte, a multiple of 64

  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
};

// Offsets of a block's tensors that the backward reads. T tokens, width d or d_ff. What is made again has one place for
// all blocks, which hold it one after the other: "block.attention.qkv" in the table. What is kept has one for each:
// "layers.3.attention.qkv".
struct BlockActivations {
  std::size_t x;                     // [T, d], what comes in
  std::size_t attention_statistics;  // fp32: RMSNorm's factor [T], LayerNorm's mean and factor [T, 2]
  std::size_t attention_normed;      // [T, d]
  std::size_t qkv;                   // [T, 3, d]; q and k after RoPE where there is one
  std::size_t o;                     // [T, d]
  std::size_t lse;                   // [batch, heads, context], fp32
  std::size_t middle;                // [T, d], after attention
  std::size_t feed_forward_statistics;
  std::size_t feed_forward_normed;  // [T, d]
  std::size_t hidden;               // [T, hidden_parts, d_ff], of w1 and w3 or of w1, then their gradients
  std::size_t activated;            // [T, d_ff]
  std::size_t end;                  // of all these, and of those of the blocks before
};

// Weights as products read them, of the parameters from `parameter` on up to the next one's: a block's, and those after
// the blocks. No product reads the embedding.
struct Copies {
  std::size_t parameter, at;
};

struct ActivationPlan {
  std::vector<Activation> table;
  std::vector<BlockActivations> blocks;
  Architecture architecture;                  // whose parameters' gradients share the memory
  std::size_t x, statistics, normed, logits;  // after the last block; logits [T, vocabulary], then their gradient
  // Gradients, used by one block after the other: of x and of what a norm or attention gave, [T, d]; of what is wider,
  // activated [T, d_ff] and qkv [T, 3, d].
  std::size_t d_x, d_narrow, d_wide;
  std::vector<Copies> copies;  // GradientMemory::over_copies where the type is not fp32; else empty
  std::size_t d_end;           // from here on gradients of parameters may lie
  std::size_t bytes = 0;
};

enum class GradientMemory {
  own,          // gradients of several batches can be added up
  shared,       // gradients of parameters lie where activations did that the backward has read: those of one batch
  over_copies,  // and where the weights' copies did, so that an update, from the first to the last, must follow
};

// What a step on one device takes: gradients over copies where there are many parameters, which rules updates beside
// the backward out.
GradientMemory step_memory(const ModelShape& shape, DType dtype);

// Of copies that lie apart, for each parameter.
constexpr std::size_t copy_bytes(DType dtype, GradientMemory memory) {
  return dtype == DType::fp32 || memory == GradientMemory::over_copies ? 0 : size_of(dtype);
}

// For a batch of sequences of shape.context tokens; dtype: of what products read and write. parts: devices that share
// every layer, of which this is one: it has heads / parts, d_ff / parts and its part of the vocabulary, but x and norms
// whole. Throws Error(invalid_argument) above 2^60 bytes, and for copies of parts.
ActivationPlan activation_plan(const ModelShape& shape, std::int64_t batch, DType dtype,
                               Recompute recompute = Recompute::none, GradientMemory memory = GradientMemory::shared,
                               std::int64_t parts = 1);

// The copies that the parameter's is among; null: none.
const Copies* copies_with(const ActivationPlan& plan, std::size_t parameter);

// Where in one run of memory the gradients of the parameters begin, which lie at its end, as floats in the order of
// their table; activations lie at its beginning.
std::size_t gradients_at(const ActivationPlan& plan, const std::vector<Parameter>& parameters, GradientMemory memory);

}  // namespace strobe::lm
