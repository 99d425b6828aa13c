// A case back to flags: the command line of a sweep's children, which repeats a row.
#include <fmt/format.h>

#include "cli/bench/case_options.h"

namespace strobe::cli {
namespace {

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

std::vector<std::string> words_of(const bench::Case& one) {
  const auto text = [](auto number) { return std::to_string(number); };
  std::vector<std::string> words{"--batch_size", text(one.batch),           "--seq_len", text(one.seq_q),
                                 "--num_heads",  text(one.heads),           "--emb_dim", text(one.emb_dim()),
                                 "--causal",     one.causal ? "on" : "off", "--dtype",   name_of(one.dtype)};
  const auto add = [&](const char* flag, std::string value) {
    words.emplace_back(flag);
    words.push_back(std::move(value));
  };
  if (one.passes != bench::Passes::both) add("--pass", has_forward(one.passes) ? "forward" : "backward");
  if (one.kv_heads != one.heads) add("--num_kv_heads", text(one.kv_heads));
  if (one.seq_k != one.seq_q) add("--seq_len_k", text(one.seq_k));
  if (one.alignment != Alignment::unsaid) {
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
