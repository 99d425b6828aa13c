// Score options of a case beyond scale and mask, and sequence lengths: their text and tensor sizes. case.cpp generates
// their data with the other inputs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace strobe::bench {

struct Case;

struct ScoreOptions {
  double softcap = 0;          // 0: none
  bool alibi = false;          // slopes 2^(-8 (h + 1) / heads)
  std::string bias{};          // full dimensions of [batch, heads, queries, keys], such as "1hqk"; empty: no bias
  bool bias_gradient = false;  // backward also writes dbias
  bool sinks = false;          // with gradient
  double dropout = 0;          // probability
  std::vector<std::int32_t> lengths{};  // number of queries and keys, [batch], padded to the sequence; empty: all full

  bool any() const { return softcap != 0 || alibi || !bias.empty() || sinks || dropout != 0 || !lengths.empty(); }
};

inline constexpr const char* kBiasShapes[] = {"bhqk", "b1qk", "1hqk", "11qk", "bh1k", "b11k", "1h1k", "111k"};

// [batch or 1, heads or 1, queries or 1, keys]; all zeros without a bias.
std::array<std::int64_t, 4> bias_shape(const Case& one);

// Valid rows, and keys, of a sequence.
std::int64_t rows_of(const Case& one, std::int64_t batch);
std::int64_t keys_of(const Case& one, std::int64_t batch);

// ", softcap 30, dropout 0.1"; empty without options.
std::string describe_options(const ScoreOptions& options);

// Appends the keys "softcap" to "lengths" of a config.
void add_options(Json& config, const ScoreOptions& options);

// Truncates the list of lengths and each length after the batch or the sequence was made smaller.
void fit_lengths(Case& one);

}  // namespace strobe::bench
