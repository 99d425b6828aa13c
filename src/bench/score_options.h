// What a case does to its scores beyond scale and mask, and the lengths of its sequences: how to say it, and the sizes
// of the tensors that it takes. Their data are made with the other inputs (case.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace strobe::bench {

struct Case;

struct ScoreOptions {
  double softcap = 0;                   // 0: none
  bool alibi = false;                   // slopes 2^(-8 (h + 1) / heads)
  std::string bias{};                   // which of [batch, heads, queries, keys] are full, such as "1hqk"; empty: none
  bool bias_gradient = false;           // the backward writes dbias too
  bool sinks = false;                   // with their gradient
  double dropout = 0;                   // probability
  std::vector<std::int32_t> lengths{};  // of queries and keys, [batch], padded to the sequence; empty: all full

  bool any() const { return softcap != 0 || alibi || !bias.empty() || sinks || dropout != 0 || !lengths.empty(); }
};

inline constexpr const char* kBiasShapes[] = {"bhqk", "b1qk", "1hqk", "11qk", "bh1k", "b11k", "1h1k", "111k"};

// [batch or 1, heads or 1, queries or 1, keys]; all zeros where there is no bias.
std::array<std::int64_t, 4> bias_shape(const Case& one);

// Rows, and keys, of a sequence that are there.
std::int64_t rows_of(const Case& one, std::int64_t batch);
std::int64_t keys_of(const Case& one, std::int64_t batch);

// ", softcap 30, dropout 0.1"; empty where there are none.
std::string describe_options(const ScoreOptions& options);

// Appends the keys "softcap" to "lengths" of a config.
void add_options(Json& config, const ScoreOptions& options);

// Cuts the lengths to a case whose batch or sequence was made smaller.
void fit_lengths(Case& one);

}  // namespace strobe::bench
