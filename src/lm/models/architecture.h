// The architectures that a model can have. Each is a file, models/NAME.cpp, and a row of architecture.cpp.
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

// linear: normal with std sqrt(2 / (in + out)), cut at 3 std. embedding, positions: std 1, cut at 3. norm: ones. bias,
// of what is added to the residual stream or of a norm, inner_bias, of q, v and w1, and key_bias, of k: zeros.
enum class Role { linear, embedding, positions, norm, bias, inner_bias, key_bias };

using Size = std::int64_t ModelShape::*;

// A parameter [rows, columns]; null: 1. Those of a block have their name after "layers.N.".
struct ParameterRow {
  const char* name;
  Size rows, columns;
  Role role;
};

// All that an architecture is. Weights that are one matmul are neighbours in their table: q, k and v, or w1 and w3.
// Their biases follow them in the same order; every other bias follows its weight.
struct Definition {
  const char* name;  // in flags and checkpoints
  // In the order in which a forward reads them; the embedding is the first of all, the unembedding the last.
  std::span<const ParameterRow> before_blocks, block, after_blocks;
  // Activations of a block by their names in memory timelines: what the norms save for the backward, fp32 numbers per
  // token; the feed-forward layer's matmuls, each d_ff wide; the activation function of these.
  const char* statistics;
  int statistics_per_token;
  const char* hidden;
  int hidden_parts;
  const char* activated;
  bool has_rope;  // q and k are rotated: the head dimension is even
  void (*forward)(Transformer& model);
  void (*backward)(Transformer& model);
  // Sampling with a KV cache (decoder.h): the norms, and the activation function.
  void (Decoder::*decode_norm)(const DecoderLayer& norm, std::int64_t first_row);
  void (Decoder::*decode_activation)();
};
const Definition& definition_of(Architecture architecture);

}  // namespace strobe::lm
