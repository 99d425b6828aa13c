// Text, JSON and tensor sizes of score options.
#include "bench/score_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/case.h"

namespace strobe::bench {

std::array<std::int64_t, 4> bias_shape(const AttentionCase& one) {
  const std::string& full = one.options.bias;
  if (full.empty()) return {};
  return {full[0] == '1' ? 1 : one.batch, full[1] == '1' ? 1 : one.heads, full[2] == '1' ? 1 : one.seqlen_q,
          one.seqlen_k};
}

std::int64_t rows_of(const AttentionCase& one, std::int64_t batch) {
  const std::vector<std::int32_t>& lengths = one.options.lengths;
  return lengths.empty() ? one.seqlen_q : lengths[static_cast<std::size_t>(batch)];
}

std::int64_t keys_of(const AttentionCase& one, std::int64_t batch) {
  const std::vector<std::int32_t>& lengths = one.options.lengths;
  return lengths.empty() ? one.seqlen_k : lengths[static_cast<std::size_t>(batch)];
}

std::string describe_options(const ScoreOptions& options) {
  std::string text;
  if (options.softcap != 0) text += fmt::format(", softcap {}", options.softcap);
  if (options.alibi) text += ", ALiBi";
  if (!options.bias.empty()) {
    text += fmt::format(", bias {}{}", options.bias, options.bias_gradient ? " with gradient" : "");
  }
  if (options.sinks) text += ", sinks";
  if (options.dropout != 0) text += fmt::format(", dropout {}", options.dropout);
  if (!options.lengths.empty()) text += fmt::format(", lengths {}", fmt::join(options.lengths, ","));
  return text;
}

void add_options(Json& config, const ScoreOptions& options) {
  Json lengths = Json::array();
  for (const std::int32_t length : options.lengths) lengths.push_back(length);
  config.set("softcap", options.softcap);
  config.set("alibi", options.alibi);
  config.set("bias", options.bias.empty() ? Json() : Json(options.bias));
  config.set("bias_gradient", options.bias_gradient);
  config.set("sinks", options.sinks);
  config.set("dropout", options.dropout);
  config.set("lengths", lengths);
}

void fit_lengths(AttentionCase& one) {
  std::vector<std::int32_t>& lengths = one.options.lengths;
  if (lengths.empty()) return;
  lengths.resize(static_cast<std::size_t>(one.batch));
  for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(std::min<std::int64_t>(length, one.seqlen_q));
}

}  // namespace strobe::bench
