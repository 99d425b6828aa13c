// Text from a model: the next token drawn by seed from its logits, again and again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lm/decoder.h"

namespace strobe::lm {

struct SampleOptions {
  std::int64_t tokens = 256;
  double temperature = 1;  // what logits are divided by; 0: always the likeliest
  std::int64_t top_k = 0;  // the likeliest so many alone; 0: all
  std::uint64_t seed = 1;
};

// Draw number `index` from the softmax of the logits; equal logits stand in the order of their tokens.
std::int32_t draw(std::span<const float> logits, const SampleOptions& options, std::uint64_t index);

// options.tokens tokens after the prompt, which must have one at least. Where the context is full, the decoder begins
// anew with its later half.
std::vector<std::int32_t> sample(Decoder& decoder, std::span<const std::int32_t> prompt, const SampleOptions& options);

}  // namespace strobe::lm
