// The size of a model: what its parameters, activations and operations are counted from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/fields.h"
#include "lm/models/architecture.h"

namespace strobe::lm {

// Largest number of a shape, and of layers. Within these, counts of parameters fit 63 bits.
inline constexpr std::int64_t kMostOfShape = std::int64_t{1} << 20, kMostLayers = 100'000;

struct ModelShape {
  std::int64_t d_model = 0, d_ff = 0, layers = 0, heads = 0;
  std::int64_t vocabulary = 10'000;
  std::int64_t context = 512;  // tokens of a sequence, at most
  Architecture architecture = Architecture::llama;

  std::int64_t at(Size which) const { return which ? this->*which : 1; }
  const Definition& definition() const { return definition_of(architecture); }
  std::int64_t head_dim() const { return d_model / heads; }
  int hidden_parts() const { return definition().hidden_parts; }  // matmuls into the feed-forward layer
  std::int64_t rope_elements() const { return definition().has_rope ? context * head_dim() : 0; }  // of the RoPE table
  bool operator==(const ModelShape&) const = default;
};

// Names of the sizes: tiny, small, medium, large, xl, 2.7B, which are llama's, and ddp-small, which is gpt2's.
std::vector<std::string> size_names();

// Throws Error(invalid_argument) for another name.
ModelShape shape_of(std::string_view size);

// Throws Error(invalid_argument), one line, if a size is below 1, heads do not divide d_model or leave a head dimension
// above 256, or an odd one with RoPE, or if counts would overflow.
void check(const ModelShape& shape);

std::int64_t parameter_count(const ModelShape& shape);

// Parameters that matmuls read, once per token: no norm, bias or embedding.
std::int64_t matmul_parameter_count(const ModelShape& shape);

}  // namespace strobe::lm

namespace strobe {

template <>
std::span<const Field<lm::ModelShape>> fields<lm::ModelShape>();  // all but the architecture

}  // namespace strobe
