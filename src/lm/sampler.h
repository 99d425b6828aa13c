// Samples text from a model, for `lm sample` and at the end of `lm train`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lm/models/decoder.h"

namespace strobe::lm {

struct SampleOptions {
  std::int64_t tokens = 256;
  double temperature = 1;  // divides the logits; 0: greedy
  std::int64_t top_k = 0;  // 0: all tokens
  std::uint64_t seed = 1;
};

struct SampleTimes {
  double prompt = 0;               // seconds until the first token is drawn
  std::int64_t prompt_tokens = 0;  // decoded tokens; fewer than the prompt's if the prompt exceeds the context
  double decode = 0;               // seconds for all tokens after the first one
  std::int64_t tokens = 0;         // tokens counted in `decode`
};

// Returns draw number `index` from the softmax of the logits. The lower of two tokens with equal logits comes first.
// Throws Error(runtime) if a logit is not finite.
std::int32_t draw(std::span<const float> logits, const SampleOptions& options, std::uint64_t index);

// Returns options.tokens tokens after the prompt. The prompt has at least one token and is decoded in one pass. When
// the context is full, decoding continues from its later half.
std::vector<std::int32_t> sample(Decoder& decoder, std::span<const std::int32_t> prompt, const SampleOptions& options,
                                 SampleTimes* times = nullptr);

}  // namespace strobe::lm
