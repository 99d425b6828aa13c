// The size of a model: what its parameters, activations and operations are counted from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::lm {

struct ModelShape {
  std::int64_t d_model = 0, d_ff = 0, layers = 0, heads = 0;
  std::int64_t vocabulary = 10'000;
  std::int64_t context = 512;  // tokens of a sequence, at most

  std::int64_t head_dim() const { return d_model / heads; }
  bool operator==(const ModelShape&) const = default;
};

// Names of the sizes: tiny, small, medium, large, xl, 2.7B.
std::vector<std::string> size_names();

// Throws Error(invalid_argument) for another name.
ModelShape shape_of(std::string_view size);

// Throws Error(invalid_argument), one line, where a size is below 1, heads do not divide d_model or leave an odd head
// dimension (RoPE turns pairs), or one above 256, or where counts would overflow.
void check(const ModelShape& shape);

// 2 V d + L (4 d^2 + 3 d d_ff + 2 d) + d.
std::int64_t parameter_count(const ModelShape& shape);

}  // namespace strobe::lm
