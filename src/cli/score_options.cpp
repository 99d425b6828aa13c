// The flags of bench::ScoreOptions, part of the case options.
#include <charconv>
#include <cmath>
#include <iterator>

#include "cli/case_options.h"
#include "core/fail.h"

namespace strobe::cli {
namespace {

constexpr std::int64_t kLongest = (std::int64_t{1} << 31) - 1;

// A number above 0 and below `bound`.
double parse_number(std::string_view flag, std::string_view value, double bound, const char* valid) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = code == std::errc() && end == value.data() + value.size();
  if (!whole || !(number > 0 && number < bound)) {
    fail(ErrorCode::invalid_argument, "{} {}: valid: {}", flag, value.empty() ? "\"\"" : value, valid);
  }
  return number;
}

bool parse_switch(std::string_view flag, std::string_view value) {
  return value.empty() || parse_word(flag, value, {"on", "off"}) == "on";
}

std::vector<std::int64_t> parse_lengths(std::string_view flag, std::string_view value) {
  std::vector<std::int64_t> lengths;
  for (const std::string& part : split(value, ',')) lengths.push_back(parse_integer(flag, part, 0, kLongest));
  return lengths;
}

const std::vector<std::string>& bias_shapes() {
  static const std::vector<std::string> shapes(std::begin(bench::kBiasShapes), std::end(bench::kBiasShapes));
  return shapes;
}

}  // namespace

void add_score_options(OptionTable& table, CaseOptions& options) {
  bench::ScoreOptions& scores = options.scores;
  table.add({.name = "softcap",
             .placeholder = "C",
             .help = "scores become C * tanh(score / C)",
             .apply = [&](auto flag, auto value) {
               scores.softcap = parse_number(flag, value, HUGE_VAL, "a number above 0, such as 30");
             }});
  table.add({.name = "alibi",
             .takes = Takes::optional_value,
             .placeholder = "on|off",
             .help = "ALiBi, with slopes 2^(-8 (h + 1) / num_heads); default off",
             .apply = [&](auto flag, auto value) { scores.alibi = parse_switch(flag, value); },
             .words = {"on", "off"}});
  table.add(
      {.name = "bias",
       .placeholder = "SHAPE",
       .help = "an additive bias of the dtype; which of batch, heads, queries, keys are full: bhqk, 1hqk, b11k, ...",
       .apply = [&](auto flag, auto value) { scores.bias = parse_word(flag, value, bias_shapes()); }});
  table.add({.name = "bias_gradient",
             .takes = Takes::optional_value,
             .placeholder = "on|off",
             .help = "the backward writes the bias's gradient too; default off",
             .apply = [&](auto flag, auto value) { scores.bias_gradient = parse_switch(flag, value); },
             .words = {"on", "off"}});
  table.add({.name = "sinks",
             .takes = Takes::optional_value,
             .placeholder = "on|off",
             .help = "one more logit a head, with its gradient; default off",
             .apply = [&](auto flag, auto value) { scores.sinks = parse_switch(flag, value); },
             .words = {"on", "off"}});
  table.add({.name = "dropout",
             .placeholder = "P",
             .help = "drops weights with probability P",
             .apply = [&](auto flag, auto value) {
               scores.dropout = parse_number(flag, value, 1, "a probability above 0 and below 1, such as 0.1");
             }});
  table.add({.name = "lengths",
             .placeholder = "N[,N]",
             .help = "queries and keys of the sequences, padded to seq_len; taken in turn over the batch",
             .apply = [&](auto flag, auto value) { options.lengths = parse_lengths(flag, value); }});
}

bench::ScoreOptions score_options_of(const CaseOptions& options, std::int64_t batch, std::int64_t seq,
                                     std::int64_t seq_k) {
  bench::ScoreOptions scores = options.scores;
  if (scores.bias_gradient && scores.bias.empty()) {
    fail(ErrorCode::invalid_argument, "--bias_gradient: there is no bias; --bias 1hqk gives one");
  }
  if (options.lengths.empty()) return scores;
  if (seq != seq_k) {
    fail(ErrorCode::invalid_argument,
         "--lengths: are of queries and keys alike, but --seq_len is {} and --seq_len_k {}", seq, seq_k);
  }
  for (const std::int64_t length : options.lengths) {
    if (length > seq) fail(ErrorCode::invalid_argument, "--lengths {}: longer than --seq_len {}", length, seq);
  }
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto at = static_cast<std::size_t>(b) % options.lengths.size();
    scores.lengths.push_back(static_cast<std::int32_t>(options.lengths[at]));
  }
  return scores;
}

}  // namespace strobe::cli
