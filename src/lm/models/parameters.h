// The table of a model's parameters: names, shapes, where each lies in one run of memory, how it begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

// linear: normal with std sqrt(2 / (in + out)), cut at 3 std. embedding, positions: std 1, cut at 3. norm: ones. bias,
// of what is added to the residual stream or of a norm, inner_bias, of q, v and w1, and key_bias, of k: zeros.
enum class Role { linear, embedding, positions, norm, bias, inner_bias, key_bias };

constexpr bool is_inner_bias(Role role) { return role == Role::inner_bias || role == Role::key_bias; }
constexpr bool is_bias(Role role) { return role == Role::bias || is_inner_bias(role); }

struct Parameter {
  std::string name;                   // as in checkpoints
  std::array<std::int64_t, 2> shape;  // [out, in], [vocabulary or context, width] or [1, width]
  Role role = Role::linear;
  std::int64_t first = 0;  // element, of all parameters

  std::int64_t count() const { return shape[0] * shape[1]; }
};

// Places in the table: the embedding, gpt2's positions, blocks, a norm, the unembedding.
inline constexpr std::size_t kEmbedding = 0, kPositions = 1;

// Those of a block's weights. Neighbours that are multiplied as one matrix stand side by side: q, k and v, and llama's
// w1 and w3. Their biases stand behind them, likewise; every other bias stands behind its weight. A block begins with
// attention_norm; beyond the last one stands the norm at the end.
struct BlockPlaces {
  std::size_t attention_norm, q, o, feed_forward_norm, w1, w2;
};
BlockPlaces block_places(Architecture architecture, std::size_t layer);

// In the order in which a forward pass needs them.
std::vector<Parameter> parameter_table(const ModelShape& shape);

inline std::size_t float_bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

// The parameter's first values, by seed and place alone: the same for any number of threads.
void begin_values(const Parameter& parameter, std::uint64_t seed, int threads, float* values);

}  // namespace strobe::lm
