// Samples text from a model. lm sample, and lm train at its end, call it.
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
  std::int64_t prompt_tokens = 0;  // that were decoded; fewer than the prompt has if it exceeds the context
  double decode = 0;               // seconds of the tokens after the first one
  std::int64_t tokens = 0;         // that `decode` counts
};

// Draw number `index` from the softmax of the logits. Of equal logits the lower token comes first. Throws
// Error(runtime) if a logit is not finite.
std::int32_t draw(std::span<const float> logits, const SampleOptions& options, std::uint64_t index);

// options.tokens tokens after the prompt, which has at least one token and is decoded in one pass. When the context is
// full, decoding continues from its later half.
std::vector<std::int32_t> sample(Decoder& decoder, std::span<const std::int32_t> prompt, const SampleOptions& options,
                                 SampleTimes* times = nullptr);

}  // namespace strobe::lm
