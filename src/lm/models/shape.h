// ModelShape has the dimensions of a model, from which parameters, activations and FLOPs are computed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/fields.h"
#include "lm/models/architecture.h"

namespace strobe::lm {

// Upper bounds: kMostLayers for the layers, kMostOfShape for every other dimension. They keep parameter counts within
// 63 bits.
inline constexpr std::int64_t kMostOfShape = std::int64_t{1} << 20, kMostLayers = 100'000;

struct ModelShape {
  std::int64_t d_model = 0, d_ff = 0, layers = 0, heads = 0;
  std::int64_t vocabulary = 10'000;
  std::int64_t context = 512;  // maximum tokens per sequence
  Architecture architecture = Architecture::llama;

  std::int64_t at(Size which) const { return which ? this->*which : 1; }
  const Definition& definition() const { return definition_of(architecture); }
  std::int64_t head_dim() const { return d_model / heads; }
  int hidden_parts() const { return definition().hidden_parts; }  // input matmuls of the feed-forward layer
  std::int64_t rope_elements() const { return definition().has_rope ? context * head_dim() : 0; }  // RoPE table
  bool operator==(const ModelShape&) const = default;
};

// Returns tiny, small, medium, large, xl and 2.7B (llama), and ddp-small (gpt2).
std::vector<std::string> size_names();

// Returns the shape of a named size. Throws Error(invalid_argument) for an unknown name.
ModelShape shape_of(std::string_view size);

// Throws Error(invalid_argument) if a dimension is below 1 or above its bound, or if heads does not divide d_model.
// Also throws if the head dimension is above 256 or, with RoPE, odd.
void check(const ModelShape& shape);

std::int64_t parameter_count(const ModelShape& shape);

// Returns the number of parameters in linear layers; excludes norms, biases, embedding and positions.
std::int64_t matmul_parameter_count(const ModelShape& shape);

}  // namespace strobe::lm

namespace strobe {

template <>
std::span<const Field<lm::ModelShape>> fields<lm::ModelShape>();  // all except the architecture

}  // namespace strobe
