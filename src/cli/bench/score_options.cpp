// Parses the flags of bench::ScoreOptions, and converts a case back to flags.
#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <limits>

#include "cli/bench/case_options.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

constexpr std::int64_t kLongest = (std::int64_t{1} << 31) - 1;
constexpr double kLeastFloat = std::numeric_limits<float>::min();
constexpr double kMostBelowOne = 1 - 0x1p-24;  // the largest float below 1

// Parses a number in [least, most].
double parse_number(std::string_view flag, std::string_view value, double least, double most, const char* valid) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = code == std::errc() && end == value.data() + value.size();
  if (!whole || !(number >= least && number <= most)) {
    fail(ErrorCode::invalid_argument, "{} {}: valid: {}", flag, printable_value(value), valid);
  }
  return number;
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

void add_scores(std::vector<std::string>& words, const bench::ScoreOptions& scores) {
  const auto add = [&](const char* flag, std::string value) {
    words.emplace_back(flag);
    words.push_back(std::move(value));
  };
  if (scores.softcap != 0) add("--softcap", fmt::format("{}", scores.softcap));
  if (scores.alibi) add("--alibi", "on");
  if (!scores.bias.empty()) add("--bias", scores.bias);
  if (scores.bias_gradient) add("--bias_gradient", "on");
  if (scores.sinks) add("--sinks", "on");
  if (scores.dropout != 0) add("--dropout", fmt::format("{}", scores.dropout));
  if (!scores.lengths.empty()) add("--lengths", fmt::format("{}", fmt::join(scores.lengths, ",")));
}

}  // namespace

void add_score_options(OptionTable& table, CaseOptions& options) {
  bench::ScoreOptions& scores = options.scores;
  table.add("softcap", "C", "scores become C * tanh(score / C)", [&](auto flag, auto value) {
    scores.softcap = parse_number(flag, value, 1e-30, 1e30, "a number from 1e-30 to 1e30, such as 30");
  });
  table.add(make_switch("alibi", "ALiBi, with slopes 2^(-8 (h + 1) / num_heads); default off", scores.alibi));
  table.add("bias", "SHAPE",
            "additive bias in the dtype; dimensions batch, heads, queries, keys, 1 if broadcast: bhqk, 1hqk, b11k, ...",
            word_into(scores.bias, bias_shapes()));
  table.add(
      make_switch("bias_gradient", "the backward also writes the bias's gradient; default off", scores.bias_gradient));
  table.add(make_switch("sinks", "one extra logit per head, with its gradient; default off", scores.sinks));
  table.add("dropout", "P", "drop attention probabilities with probability P", [&](auto flag, auto value) {
    scores.dropout =
        parse_number(flag, value, kLeastFloat, kMostBelowOne, "a probability above 0 and below 1, such as 0.1");
  });
  table.add("lengths", "N[,N]", "lengths of the sequences, padded to seq_len; repeated over the batch",
            into(options.lengths, parse_lengths));
}

bench::ScoreOptions score_options_of(const CaseOptions& options, std::int64_t batch, std::int64_t seqlen_q,
                                     std::int64_t seqlen_k) {
  bench::ScoreOptions scores = options.scores;
  if (scores.bias_gradient && scores.bias.empty()) {
    fail(ErrorCode::invalid_argument, "--bias_gradient: needs a bias; valid: with --bias, such as --bias 1hqk");
  }
  if (options.lengths.empty()) return scores;
  if (seqlen_q != seqlen_k) {
    fail(ErrorCode::invalid_argument,
         "--lengths: applies to queries and keys, but --seq_len is {} and --seq_len_k {}; valid: equal values",
         seqlen_q, seqlen_k);
  }
  for (const std::int64_t length : options.lengths) {
    if (length > seqlen_q)
      fail(ErrorCode::invalid_argument, "--lengths {}: longer than --seq_len {}", length, seqlen_q);
  }
  if (const auto given = std::ssize(options.lengths); given > batch) {
    fail(ErrorCode::invalid_argument, "--lengths: {} lengths, but --batch_size is {}; valid: 1 to {} lengths", given,
         batch, batch);
  }
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto at = static_cast<std::size_t>(b) % options.lengths.size();
    scores.lengths.push_back(static_cast<std::int32_t>(options.lengths[at]));
  }
  return scores;
}

std::vector<std::string> words_of(const bench::AttentionCase& one) {
  const auto text = [](auto number) { return std::to_string(number); };
  std::vector<std::string> words{"--batch_size", text(one.batch),           "--seq_len", text(one.seqlen_q),
                                 "--num_heads",  text(one.heads),           "--emb_dim", text(one.emb_dim()),
                                 "--causal",     one.causal ? "on" : "off", "--dtype",   name_of(one.dtype)};
  const auto add = [&](const char* flag, std::string value) {
    words.emplace_back(flag);
    words.push_back(std::move(value));
  };
  if (one.passes != bench::Passes::both) add("--pass", has_forward(one.passes) ? "forward" : "backward");
  if (one.kv_heads != one.heads) add("--num_kv_heads", text(one.kv_heads));
  if (one.seqlen_k != one.seqlen_q) add("--seq_len_k", text(one.seqlen_k));
  if (one.alignment != Alignment::unset) {
    add("--align", one.alignment == Alignment::top_left ? "top_left" : "bottom_right");
  }
  if (one.window.left >= 0 || one.window.right >= 0) {
    add("--window", fmt::format("{}:{}", one.window.left, one.window.right));
  }
  add_scores(words, one.options);
  add("--device", bench::name_of(one.device));
  if (one.cache == bench::Cache::hot) add("--cache", "hot");
  add("--threads", text(one.threads));
  return words;
}

}  // namespace strobe::cli
