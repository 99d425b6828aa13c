// The size of a model: what its parameters, activations and operations are counted from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/fields.h"
#include "lm/architecture.h"

namespace strobe::lm {

// Of every number of a shape, but of layers; with these, counts of parameters fit 63 bits.
inline constexpr std::int64_t kMostOfShape = std::int64_t{1} << 20, kMostLayers = 100'000;

struct ModelShape {
  std::int64_t d_model = 0, d_ff = 0, layers = 0, heads = 0;
  std::int64_t vocabulary = 10'000;
  std::int64_t context = 512;  // tokens of a sequence, at most
  Architecture architecture = Architecture::llama;

  std::int64_t head_dim() const { return d_model / heads; }
  // Products into the feed-forward layer, each d_ff wide: one that is activated, and llama's that gates it.
  int hidden_parts() const { return architecture == Architecture::llama ? 2 : 1; }
  // Elements of the table of RoPE.
  std::int64_t turns() const { return architecture == Architecture::llama ? context * head_dim() : 0; }
  bool operator==(const ModelShape&) const = default;
};

// Names of the sizes: tiny, small, medium, large, xl, 2.7B, which are llama's, and ddp-small, which is gpt2's.
std::vector<std::string> size_names();

// Throws Error(invalid_argument) for another name.
ModelShape shape_of(std::string_view size);

// Throws Error(invalid_argument), one line, where a size is below 1, heads do not divide d_model or leave a head
// dimension above 256, or an odd one where RoPE turns pairs, or where counts would overflow.
void check(const ModelShape& shape);

// llama: 2 V d + L (4 d^2 + 3 d d_ff + 2 d) + d.
// gpt2, S the context: (2 V + S) d + L (4 d^2 + 2 d d_ff + 9 d + d_ff) + 2 d.
std::int64_t parameter_count(const ModelShape& shape);

}  // namespace strobe::lm

namespace strobe {

template <>
std::span<const Field<lm::ModelShape>> fields<lm::ModelShape>();  // all but the architecture

}  // namespace strobe
