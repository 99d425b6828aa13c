// Draws tokens from logits, and samples text with a sliding context window.
#include "lm/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/clock.h"
#include "core/fail.h"
#include "core/philox.h"

namespace strobe::lm {

namespace {

constexpr std::uint32_t kSamplerStream = 0x64726177;  // random stream that only draws use

double uniform(std::uint64_t seed, std::uint64_t index) {
  const auto words =
      philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, kSamplerStream}, seed);
  return static_cast<double>(std::uint64_t{words[0]} << 21 ^ words[1] >> 11) * 0x1p-53;
}

// Returns the `count` tokens with the largest logits, in descending order of logit.
std::vector<std::int32_t> top(std::span<const float> logits, std::size_t count) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)], right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count), tokens.end(), before);
  tokens.resize(count);
  return tokens;
}

std::vector<std::int32_t> all_of(std::span<const float> logits) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

// Returns the position in a text of `tokens` tokens at which the decoder's window begins. When the context is full, its
// later half becomes the new window.
std::size_t window_begin(std::size_t tokens, std::int64_t context) {
  const auto full = static_cast<std::size_t>(context);
  if (tokens <= full) return 0;
  const std::size_t dropped = full + 1 - std::max<std::size_t>(1, full / 2);
  return (tokens - full + dropped - 1) / dropped * dropped;
}

}  // namespace

std::int32_t draw(std::span<const float> logits, const SampleOptions& options, std::uint64_t index) {
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) {
    fail(ErrorCode::runtime, "lm sample: the model's logits are not finite");
  }
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return static_cast<std::int32_t>(largest - logits.begin());
  const auto wanted = static_cast<std::size_t>(options.top_k);
  const std::vector<std::int32_t> tokens =
      wanted == 0 || wanted >= logits.size() ? all_of(logits) : top(logits, wanted);
  std::vector<double> sums;  // running sums of exp
  sums.reserve(tokens.size());
  double sum = 0;
  for (const std::int32_t token : tokens) {
    sum += std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - *largest) / options.temperature);
    sums.push_back(sum);
  }
  const auto found = std::upper_bound(sums.begin(), sums.end(), uniform(options.seed, index) * sum);
  return tokens[std::min(static_cast<std::size_t>(found - sums.begin()), tokens.size() - 1)];
}

std::vector<std::int32_t> sample(Decoder& decoder, std::span<const std::int32_t> prompt, const SampleOptions& options,
                                 SampleTimes* times) {
  if (prompt.empty()) fail(ErrorCode::invalid_argument, "lm sample: the prompt has no token; valid: one or more");
  const std::int64_t context = decoder.shape().context;
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::size_t begin = 0;
  decoder.restart();
  SampleTimes taken{.tokens = options.tokens - 1};
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const double start = now_seconds();
    const std::size_t wanted = window_begin(text.size(), context);
    if (wanted != begin) decoder.restart();
    begin = wanted;
    const std::size_t cached = begin + static_cast<std::size_t>(decoder.length());
    if (i == 0) taken.prompt_tokens = static_cast<std::int64_t>(text.size() - cached);
    text.push_back(draw(decoder.append(std::span(text).subspan(cached)), options, static_cast<std::uint64_t>(i)));
    (i == 0 ? taken.prompt : taken.decode) += now_seconds() - start;
  }
  if (times) *times = taken;
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace strobe::lm
