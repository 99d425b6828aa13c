// Samples text from a model. `strobe lm sample` and the end of `strobe lm train` use it.
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
  std::int64_t prompt_tokens = 0;  // tokens of the prompt that were decoded: fewer than all if it exceeds the context
  double decode = 0;               // seconds for all tokens after the first one
  std::int64_t tokens = 0;         // tokens counted in `decode`
};

// Draws a token from the softmax of the logits. The draw depends only on the arguments; `index` selects a random number
// from the stream of the seed. Among equal logits, greedy and top_k prefer the lowest token. Throws Error(runtime) if a
// logit is not finite.
std::int32_t draw(std::span<const float> logits, const SampleOptions& options, std::uint64_t index);

// Returns the options.tokens tokens that follow the prompt, which must have at least one token. When the context is
// full, decoding continues from its later half.
std::vector<std::int32_t> sample(Decoder& decoder, std::span<const std::int32_t> prompt, const SampleOptions& options,
                                 SampleTimes* times = nullptr);

}  // namespace strobe::lm
