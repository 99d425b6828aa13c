// The table of a model's parameters: names, shapes, where each lies in one run of memory, how it begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lm/shape.h"

namespace strobe::lm {

// linear: normal with std sqrt(2 / (in + out)), cut at 3 std. embedding: std 1, cut at 3. norm: ones.
enum class Role { linear, embedding, norm };

struct Parameter {
  std::string name;                   // as in checkpoints
  std::array<std::int64_t, 2> shape;  // [out, in], [vocabulary, width] or [1, width]
  Role role = Role::linear;
  std::int64_t first = 0;  // element, of all parameters

  std::int64_t count() const { return shape[0] * shape[1]; }
};

// Places in the table: one embedding, nine of a block, a norm, the unembedding.
inline constexpr std::size_t kEmbedding = 0, kParametersOfABlock = 9;

// In the order in which a forward pass needs them.
std::vector<Parameter> parameter_table(const ModelShape& shape);

inline std::size_t float_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// The parameter's first values, by seed and place alone: the same for any number of threads.
void begin_values(const Parameter& parameter, std::uint64_t seed, int threads, float* values);

}  // namespace strobe::lm
