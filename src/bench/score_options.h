// Options of a case that change its scores beyond scale and mask (softcap, ALiBi, bias, sinks, dropout), and sequence
// lengths. make_inputs() of case.h generates their data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace strobe::bench {

struct AttentionCase;

struct ScoreOptions {
  double softcap = 0;  // 0: none
  bool alibi = false;  // slopes 2^(-8 (h + 1) / heads)
  std::string bias{};  // bias shape: letter for a full dimension, 1 for broadcast, such as "1hqk"; empty: no bias
  bool bias_gradient = false;           // backward also writes dbias
  bool sinks = false;                   // one logit per head; backward also writes their gradient
  double dropout = 0;                   // probability
  std::vector<std::int32_t> lengths{};  // [batch], number of valid queries and keys per sequence; empty: all are full

  bool any() const { return softcap != 0 || alibi || !bias.empty() || sinks || dropout != 0 || !lengths.empty(); }
};

inline constexpr const char* kBiasShapes[] = {"bhqk", "b1qk", "1hqk", "11qk", "bh1k", "b11k", "1h1k", "111k"};

// [batch or 1, heads or 1, queries or 1, keys]; all zeros without a bias.
std::array<std::int64_t, 4> bias_shape(const AttentionCase& one);

// Number of valid query rows, and of valid keys, of a sequence.
std::int64_t rows_of(const AttentionCase& one, std::int64_t batch);
std::int64_t keys_of(const AttentionCase& one, std::int64_t batch);

// ", softcap 30, dropout 0.1"; empty without options.
std::string describe_options(const ScoreOptions& options);

// Sets the keys softcap, alibi, bias, bias_gradient, sinks, dropout and lengths of a config.
void add_options(Json& config, const ScoreOptions& options);

// Adapts the lengths to a reduced case: drops those beyond the batch, and limits each to the sequence length.
void fit_lengths(AttentionCase& one);

}  // namespace strobe::bench
