// Choices that flags and files spell by name: how a model computes, and what it computes again.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

// Index of `name` in `names`. Throws Error(invalid_argument): "precision fp8: valid: fp32, tf32, bf16, fp16".
std::size_t index_of_name(std::string_view what, std::string_view name, std::span<const char* const> names);

// Type of activations and matmuls. Parameters, norms, softmax, loss and optimizer are fp32 in all of them.
enum class Precision { fp32, tf32, bf16, fp16 };

std::vector<std::string> precision_names();
const char* name_of(Precision precision);
Precision precision_of(std::string_view name);  // throws as index_of_name does
DType dtype_of(Precision precision);            // tf32: fp32, which only matmuls round

// Activations of a block are saved from the forward to the backward, or computed again in the backward. The bits are
// the same.
enum class Recompute {
  none,
  attention,  // computes again: attention's norm, q, k, v and output
  block,      // computes again: all but the block's input
};

std::vector<std::string> recompute_names();
const char* name_of(Recompute recompute);
Recompute recompute_of(std::string_view name);  // throws as index_of_name does

}  // namespace strobe::lm
