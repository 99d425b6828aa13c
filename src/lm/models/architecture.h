// Defines the interface of a model architecture. Each architecture has a file, models/NAME.cpp, and a row in
// architecture.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::lm {

struct ModelShape;
class Transformer;
class Decoder;
struct DecoderLayer;

enum class Architecture { llama, gpt2 };

std::vector<std::string> architecture_names();  // in the order of Architecture
const char* name_of(Architecture architecture);
Architecture architecture_of(std::string_view name);  // throws Error(invalid_argument) with the valid names

// The role of a parameter determines its initial values:
// - linear: normal with standard deviation s = sqrt(2 / (rows + columns)), truncated at 3 s.
// - embedding, positions: normal with standard deviation 1, truncated at 3.
// - norm: ones.
// - bias, inner_bias, key_bias: zeros. `bias` belongs to a norm or to a linear layer that adds to the residual stream,
//   inner_bias to q, v or w1, key_bias to k.
enum class Role { linear, embedding, positions, norm, bias, inner_bias, key_bias };

using Size = std::int64_t ModelShape::*;

// A parameter [rows, columns]. A null size is 1. Parameters of a block have the prefix "layers.N.".
struct ParameterRow {
  const char* name;
  Size rows, columns;
  Role role;
};

// Definition of an architecture. Parameters that form one matmul are adjacent in the table: q, k and v, or w1 and w3.
// The biases of such a group follow its weights, in the same order; every other bias follows its weight.
struct Definition {
  const char* name;  // name in flags and checkpoints
  // Parameters in the order in which a forward reads them. The embedding comes first, the unembedding last.
  std::span<const ParameterRow> before_blocks, block, after_blocks;
  // Activations of a block. `statistics` is the name, in memory timelines, of the statistics_per_token fp32 values that
  // a norm saves for the backward. The feed-forward layer has hidden_parts input matmuls, each d_ff wide, and one
  // activation function.
  const char* statistics;
  int statistics_per_token;
  const char* hidden;
  int hidden_parts;
  const char* activated;
  bool has_rope;  // q and k are rotated, so the head dimension must be even
  void (*forward)(Transformer& model);
  void (*backward)(Transformer& model);
  // Functions for sampling with a KV cache (decoder.h): the norms and the activation function.
  void (Decoder::*decode_norm)(const DecoderLayer& norm, std::int64_t first_row);
  void (Decoder::*decode_activation)();
};
const Definition& definition_of(Architecture architecture);

}  // namespace strobe::lm
