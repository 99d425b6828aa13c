// Defines the table of a model's parameters: names, shapes, offsets in one allocation and initial values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

constexpr bool is_inner_bias(Role role) { return role == Role::inner_bias || role == Role::key_bias; }
constexpr bool is_bias(Role role) { return role == Role::bias || is_inner_bias(role); }

struct Parameter {
  std::string name;                   // name in checkpoints
  std::array<std::int64_t, 2> shape;  // [out, in], [vocabulary or context, width] or [1, width]
  Role role = Role::linear;
  std::int64_t first = 0;  // index of its first element among all parameters

  std::int64_t count() const { return shape[0] * shape[1]; }
};

inline constexpr std::size_t kEmbedding = 0;  // index in the table

// Returns the table index of the first parameter of block `layer`. If `layer` is the number of blocks, this is the
// first parameter after the blocks.
std::size_t first_parameter(Architecture architecture, std::size_t layer);

// Returns the parameters in the order in which a forward pass reads them.
std::vector<Parameter> parameter_table(const ModelShape& shape);

inline std::size_t float_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// Writes the parameter's initial values. They depend on the seed and the parameter's offset, not on the number of
// threads.
void begin_values(const Parameter& parameter, std::uint64_t seed, int threads, float* values);

}  // namespace strobe::lm
