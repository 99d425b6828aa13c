#include "lm/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/fail.h"
#include "core/philox.h"

namespace strobe::lm {

namespace {

constexpr std::uint32_t kSamplerStream = 0x64726177;  // apart from the other uses of the seed

double uniform(std::uint64_t seed, std::uint64_t index) {
  const auto words =
      philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, kSamplerStream}, seed);
  return static_cast<double>(std::uint64_t{words[0]} << 21 ^ words[1] >> 11) * 0x1p-53;
}

// The likeliest first.
std::vector<std::int32_t> ranked(std::span<const float> logits, std::size_t count) {
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

}  // namespace

std::int32_t draw(std::span<const float> logits, const SampleOptions& options, std::uint64_t index) {
  const bool likeliest = options.temperature == 0;
  const std::size_t wanted = likeliest ? 1 : static_cast<std::size_t>(options.top_k);
  const std::vector<std::int32_t> tokens =
      ranked(logits, wanted == 0 ? logits.size() : std::min(wanted, logits.size()));
  if (likeliest) return tokens[0];
  std::vector<double> sums;  // running, of exp
  const double most = logits[static_cast<std::size_t>(tokens[0])];
  double sum = 0;
  for (const std::int32_t token : tokens) {
    sum += std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - most) / options.temperature);
    sums.push_back(sum);
  }
  if (!std::isfinite(sum)) fail(ErrorCode::runtime, "lm sample: the model's logits are not finite");
  const auto found = std::upper_bound(sums.begin(), sums.end(), uniform(options.seed, index) * sum);
  return tokens[std::min(static_cast<std::size_t>(found - sums.begin()), tokens.size() - 1)];
}

std::vector<std::int32_t> sample(Decoder& decoder, std::span<const std::int32_t> prompt, const SampleOptions& options) {
  if (prompt.empty()) fail(ErrorCode::invalid_argument, "lm sample: the prompt has no token; valid: one or more");
  std::vector<std::int32_t> all;
  std::span<const float> logits;
  const auto take = [&](std::int32_t token) {
    all.push_back(token);
    std::size_t fed = 1;
    if (decoder.length() == decoder.shape().context) {
      decoder.restart();
      fed = static_cast<std::size_t>(std::max<std::int64_t>(1, decoder.shape().context / 2));
    }
    for (std::size_t i = all.size() - fed; i < all.size(); ++i) logits = decoder.next(all[i]);
  };
  decoder.restart();
  for (const std::int32_t token : prompt) take(token);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::int32_t token = draw(logits, options, static_cast<std::uint64_t>(i));
    if (i + 1 == options.tokens) {
      all.push_back(token);
    } else {
      take(token);
    }
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()};
}

}  // namespace strobe::lm
