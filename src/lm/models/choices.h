// Defines two options of a model, precision and recomputation, and their names. Flags of `strobe lm` and settings of
// checkpoints use the names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

// Returns the index of `name` in `names`. Throws Error(invalid_argument): "precision fp8: valid: fp32, tf32, bf16,
// fp16".
std::size_t index_of_name(std::string_view what, std::string_view name, std::span<const char* const> names);

// Type of activations and matmuls. Parameters, norms, softmax, loss and optimizer always use fp32.
enum class Precision { fp32, tf32, bf16, fp16 };

std::vector<std::string> precision_names();
const char* name_of(Precision precision);
Precision precision_of(std::string_view name);  // throws what index_of_name() throws
DType dtype_of(Precision precision);            // tf32: fp32; only matmuls round to TF32

// Selects the activations of a block that the forward does not save and the backward recomputes. All modes produce
// bitwise equal results.
enum class Recompute {
  none,
  attention,  // recomputes attention's norm, q, k, v and output
  block,      // recomputes everything except the block's input
};

std::vector<std::string> recompute_names();
const char* name_of(Recompute recompute);
Recompute recompute_of(std::string_view name);  // throws what index_of_name() throws

}  // namespace strobe::lm
