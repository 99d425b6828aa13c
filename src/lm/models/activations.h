// The memory plan of a step or a forward pass: a table of the tensors that it needs in addition to the parameters. All
// these tensors are in one contiguous allocation, called the arena; the table has their offsets. Operations refer to a
// tensor by its index in the table. Transformer uses the plan, and lm/plan predicts memory from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lm/models/choices.h"
#include "lm/models/parameters.h"
#include "strobe/dtype.h"

namespace strobe::lm {

struct Activation {
  enum class Kind { plain, scores };  // scores: attention scores, probabilities or their gradients

  std::string name;
  std::int64_t count = 0;  // elements
  DType dtype = DType::fp32;
  std::size_t first = 0;  // byte offset in the arena, a multiple of 64
  Kind kind = Kind::plain;

  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
};

inline constexpr std::size_t kNoTensor = static_cast<std::size_t>(-1);

// Table indices of one block's tensors, for T = batch * context tokens, width d and feed-forward width d_ff. All blocks
// share the tensors that are recomputed, with names such as "block.attention.qkv". Each block has its own saved
// tensors, such as "layers.3.attention.qkv".
struct BlockActivations {
  std::size_t x = kNoTensor;                     // [T, d], input of the block
  std::size_t attention_statistics = kNoTensor;  // fp32: RMSNorm 1 / rms [T]; LayerNorm mean and 1 / deviation [T, 2]
  std::size_t attention_normed = kNoTensor;      // [T, d]
  std::size_t qkv = kNoTensor;                   // [T, 3, d]; q and k after RoPE if the architecture has it
  std::size_t probabilities = kNoTensor;         // [batch, heads, context, context]; AttentionMemory::materialised
  std::size_t o = kNoTensor;                     // [T, d]
  std::size_t lse = kNoTensor;     // [batch, heads, context], fp32; AttentionMemory::fused, unless forward only
  std::size_t middle = kNoTensor;  // [T, d], residual stream after attention
  std::size_t feed_forward_statistics = kNoTensor;
  std::size_t feed_forward_normed = kNoTensor;  // [T, d]
  std::size_t hidden = kNoTensor;               // [T, hidden_parts, d_ff], output of w1 (and w3), then its gradient
  std::size_t activated = kNoTensor;            // [T, d_ff]
  std::size_t end = 0;  // byte offset in the arena, after the tensors of this and earlier blocks
};

// A tensor with copies of parameters in the type of the matmuls: the parameters of one block, or all parameters after
// the last block. `parameter` is the first parameter copied, `tensor` the index in ActivationPlan::table. Parameters
// before the blocks have no copy because no matmul reads them.
struct Copies {
  std::size_t parameter, tensor;
};

struct ActivationPlan {
  std::vector<Activation> table;
  std::vector<BlockActivations> blocks;
  Architecture architecture;  // defines the parameters
  // Tensors after the last block. logits: [T, vocabulary], which cross-entropy replaces by their gradient in training.
  std::size_t x, statistics, normed, logits;
  // Gradients of activations, shared by all blocks:
  // - d_x: of x, [T, d].
  // - d_narrow: of the output of a norm or of attention, [T, d].
  // - d_wide: of `activated`, [T, d_ff], or of qkv, [T, 3, d].
  // - d_scores: of materialised scores, with the shape of the probabilities.
  std::size_t d_x = kNoTensor, d_narrow = kNoTensor, d_wide = kNoTensor, d_scores = kNoTensor;
  std::vector<Copies> copies;  // GradientMemory::over_copies with a type other than fp32; otherwise empty
  std::size_t d_end = 0;       // byte offset of the end of the gradients of activations; parameter gradients come later
  std::size_t bytes = 0;
};

enum class GradientMemory {
  none,         // forward only: memory is reused as soon as the forward has read a tensor
  own,          // gradients have their own memory, so several batches can be accumulated
  shared,       // parameter gradients overwrite activations that the backward has read, so they cannot be accumulated
  over_copies,  // as shared, and gradients overwrite parameter copies: an update must follow, in parameter order
};

// Returns over_copies for models with at least kManyParameters (activations.cpp) unless dtype is fp32, otherwise
// shared. With over_copies, updates cannot overlap with the backward.
GradientMemory step_memory(const ModelShape& shape, DType dtype);

// Returns the bytes per parameter of copies outside the arena.
constexpr std::size_t copy_bytes(DType dtype, GradientMemory memory) {
  return dtype == DType::fp32 || memory == GradientMemory::over_copies ? 0 : size_of(dtype);
}

// Selects what attention saves for its backward.
enum class AttentionMemory {
  fused,         // the log-sum-exp of each row; the kernels compute scores tile by tile in forward and backward
  materialised,  // the probabilities of all heads (ops/attention.h)
};

// Returns materialised for the kernel `standard`, else fused.
AttentionMemory attention_memory_of(std::string_view kernel);

struct PlanOptions {
  Recompute recompute = Recompute::none;
  GradientMemory gradients = GradientMemory::shared;
  AttentionMemory attention = AttentionMemory::fused;
  // Number of tensor-parallel devices. Each device has heads / parts, d_ff / parts and vocabulary / parts, but all of x
  // and of the norms.
  std::int64_t parts = 1;
};

// Returns the plan for `batch` sequences of shape.context tokens. `dtype` is the type of the matmuls' operands and
// results. Throws Error(invalid_argument) above 2^60 bytes, and for over_copies if parts is not 1.
ActivationPlan activation_plan(const ModelShape& shape, std::int64_t batch, DType dtype,
                               const PlanOptions& options = {});

// Returns the entry that contains the parameter's copy; null if the parameter has none.
const Copies* copies_with(const ActivationPlan& plan, std::size_t parameter);

// Returns the byte offset in the arena at which the parameter gradients begin. These gradients are floats in the order
// of the parameter table, at the end of the arena. With GradientMemory::none, returns the end of the arena.
std::size_t gradients_at(const ActivationPlan& plan, const std::vector<Parameter>& parameters, GradientMemory memory);

}  // namespace strobe::lm
