// Defines the field table of AttentionCase, and writes a case as the "config" of a result and as flags.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "bench/case.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/host/thread_pool.h"

namespace strobe {

using bench::AttentionCase, bench::Cache, bench::Passes;

namespace {

using CaseField = Field<AttentionCase>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostSize = std::int64_t{1} << 40, kLongest = (std::int64_t{1} << 31) - 1;
constexpr double kLeastFloat = std::numeric_limits<float>::min();
constexpr double kMostBelowOne = 1 - 0x1p-24;  // the largest float below 1

CaseField size_field(const char* key, std::int64_t AttentionCase::*member, std::int64_t least, std::string help,
                     const char* alias) {
  CaseField field = integer_field<AttentionCase>({key, least, kMostSize}, member, std::move(help), {alias});
  field.parse = [parse = field.parse](AttentionCase& one, std::string_view flag, std::string_view value) {
    if (value.find(',') != value.npos) {
      fail(ErrorCode::invalid_argument, "{} {}: not one whole number; for several sizes: strobe sweep {} {}", flag,
           printable_value(value), flag, printable_value(value));
    }
    parse(one, flag, value);
  };
  return field;
}

Window parse_window(std::string_view flag, std::string_view value) {
  const auto refuse = [&] {
    fail(ErrorCode::invalid_argument,
         "{} {}: valid: LEFT:RIGHT, two whole numbers of keys, such as 128:0; -1 leaves a side open", flag,
         printable_value(value));
  };
  const std::vector<std::string> sides = split(value, ':');
  if (sides.size() != 2) refuse();
  try {
    return {parse_integer(flag, sides[0], -1, kMost), parse_integer(flag, sides[1], -1, kMost)};
  } catch (const Error&) {
    refuse();  // this error shows both sides
  }
  return {};
}

CaseField window_field() {
  CaseField field = make_field<AttentionCase>(
      "window", "LEFT:RIGHT", "sliding window: keys to the left and right of the diagonal; -1: unlimited",
      &AttentionCase::window);
  field.parse = [](AttentionCase& one, auto flag, auto value) { one.window = parse_window(flag, value); };
  field.json = [](const AttentionCase& one) { return Json::array({one.window.left, one.window.right}); };
  field.text = [](const AttentionCase& one) { return fmt::format("{}:{}", one.window.left, one.window.right); };
  return field;
}

// A number of the scores in [least, most]; `valid` describes the range.
template <class Member>
CaseField score_field(const char* key, const char* placeholder, Member member, double least, double most,
                      const char* valid, std::string help) {
  CaseField field = number_field<AttentionCase>({key, least, most}, member, std::move(help));
  field.placeholder = placeholder;
  field.parse = [=](AttentionCase& one, std::string_view flag, std::string_view value) {
    double number = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = code == std::errc() && end == value.data() + value.size();
    if (!whole || !(number >= least && number <= most)) {
      fail(ErrorCode::invalid_argument, "{} {}: valid: {}", flag, printable_value(value), valid);
    }
    std::invoke(member, one) = number;
  };
  return field;
}

CaseField bias_field() {
  const auto bias = [](auto& one) -> auto& { return one.options.bias; };
  CaseField field = word_field<AttentionCase>(
      "bias", "SHAPE", bias, {std::begin(bench::kBiasShapes), std::end(bench::kBiasShapes)}, std::identity(),
      std::identity(),
      "additive bias in the dtype; dimensions batch, heads, queries, keys, 1 if broadcast: bhqk, 1hqk, b11k, ...");
  field.json = [](const AttentionCase& one) { return one.options.bias.empty() ? Json() : Json(one.options.bias); };
  return field;
}

CaseField lengths_field() {
  const auto lengths = [](auto& one) -> auto& { return one.options.lengths; };
  CaseField field = make_field<AttentionCase>(
      "lengths", "N[,N]", "lengths of the sequences, padded to seq_len; repeated over the batch", lengths);
  field.parse = [](AttentionCase& one, auto flag, auto value) {
    one.options.lengths.clear();
    for (const std::string& part : split(value, ',')) {
      one.options.lengths.push_back(static_cast<std::int32_t>(parse_integer(flag, part, 0, kLongest)));
    }
  };
  field.json = [](const AttentionCase& one) {
    return Json::array({one.options.lengths.begin(), one.options.lengths.end()});
  };
  field.text = [](const AttentionCase& one) { return fmt::format("{}", fmt::join(one.options.lengths, ",")); };
  return field;
}

// Sets the head dimension for the case's number of heads.
CaseField emb_dim_field() {
  CaseField field = size_field("emb_dim", &AttentionCase::head_dim, 1,
                               "width of all heads; head dimension = emb_dim / num_heads; default 2048", "emb");
  field.parse = [parse = field.parse](AttentionCase& one, auto flag, auto value) {
    parse(one, flag, value);
    one.head_dim /= one.heads;
  };
  field.json = [](const AttentionCase& one) { return Json(one.emb_dim()); };
  field.text = [](const AttentionCase& one) { return fmt::format("{}", one.emb_dim()); };
  return field;
}

CaseField causal_field() {
  CaseField field = switch_field<AttentionCase>("causal", &AttentionCase::causal,
                                                "causal mask; --causal without a value is on; default off");
  field.placeholder = "off|on|both";
  field.words = {"off", "on", "both"};
  return field;
}

// On a CPU, whose caches are not flushed, the JSON differs from the flag.
CaseField cache_field() {
  CaseField field = word_field<AttentionCase>(
      "cache", "cold|hot", &AttentionCase::cache, {"cold", "hot"},
      [](const std::string& word) { return word == "hot" ? Cache::hot : Cache::cold; },
      [](Cache cache) { return cache == Cache::hot ? "hot" : "cold"; },
      "hot: tensors in the GPU's L2 cache; cold: flushed; default cold");
  field.json = [text = field.text](const AttentionCase& one) {
    return Json(one.device == Device::cpu ? "not flushed" : text(one));
  };
  return field;
}

CaseField dtype_field() {
  return word_field<AttentionCase>(
      "dtype", "fp32|fp16|bf16", &AttentionCase::dtype, {"fp32", "fp16", "bf16"},
      [](const std::string& word) { return word == "fp32"   ? DType::fp32
                                           : word == "fp16" ? DType::fp16
                                                            : DType::bf16; },
      [](DType dtype) { return name_of(dtype); }, "default fp16");
}

CaseField pass_field() {
  return word_field<AttentionCase>(
      "pass", "forward|backward|both", &AttentionCase::passes, {"forward", "backward", "both"},
      [](const std::string& word) {
        return word == "both" ? Passes::both : word == "forward" ? Passes::forward : Passes::backward;
      },
      [](Passes passes) { return bench::name_of(passes); }, "passes to time; default both");
}

CaseField align_field() {
  return word_field<AttentionCase>(
      "align", "top_left|bottom_right", &AttentionCase::alignment, {"top_left", "bottom_right"},
      [](const std::string& word) { return word == "top_left" ? Alignment::top_left : Alignment::bottom_right; },
      [](Alignment alignment) { return bench::name_of(alignment); },
      "alignment of the diagonal if the numbers of queries and keys differ");
}

CaseField device_field() {
  return word_field<AttentionCase>(
      "device", "cpu|cuda", &AttentionCase::device, {"cpu", "cuda"},
      [](const std::string& word) { return word == "cuda" ? Device::cuda : Device::cpu; },
      [](Device device) { return bench::name_of(device); }, "default: cuda if there is a GPU");
}

std::vector<CaseField> case_fields() {
  using Case = AttentionCase;
  std::vector<CaseField> all = {
      size_field("batch_size", &Case::batch, 0, "default 32", "batch"),
      size_field("seq_len", &Case::seqlen_q, 0, "queries, and keys unless --seq_len_k; default 1024", "seq"),
      size_field("num_heads", &Case::heads, 1, "default 32", "heads"),
      emb_dim_field(),
      integer_field<Case>({"head_dim", 1, 1 << 20}, &Case::head_dim, "sets emb_dim to num_heads * N"),
      causal_field(),
      dtype_field(),
      switch_field<Case>("tf32", &Case::tf32, "allow TF32 (10-bit mantissa); cuda; default off"),
      switch_field<Case>("deterministic", &Case::deterministic,
                         "bitwise reproducible backward on a GPU, as always on a CPU; the library's kernels only; "
                         "default off"),
      pass_field(),
      size_field("num_kv_heads", &Case::kv_heads, 1,
                 "KV heads, each shared by num_heads / N query heads; default num_heads", "kv_heads"),
      size_field("seq_len_k", &Case::seqlen_k, 0, "keys; default seq_len", "seq_k"),
      align_field(),
      window_field(),
      score_field(
          "softcap", "C", [](auto& one) -> auto& { return one.options.softcap; }, 1e-30, 1e30,
          "a number from 1e-30 to 1e30, such as 30", "scores become C * tanh(score / C)"),
      switch_field<Case>(
          "alibi", [](auto& one) -> auto& { return one.options.alibi; },
          "ALiBi, with slopes 2^(-8 (h + 1) / num_heads); default off"),
      bias_field(),
      switch_field<Case>(
          "bias_gradient", [](auto& one) -> auto& { return one.options.bias_gradient; },
          "the backward also writes the bias's gradient; default off"),
      switch_field<Case>(
          "sinks", [](auto& one) -> auto& { return one.options.sinks; },
          "one extra logit per head, with its gradient; default off"),
      score_field(
          "dropout", "P", [](auto& one) -> auto& { return one.options.dropout; }, kLeastFloat, kMostBelowOne,
          "a probability above 0 and below 1, such as 0.1", "drop attention probabilities with probability P"),
      lengths_field(),
      cache_field(),
      device_field(),
      integer_field<Case>({"threads", 1, kMaxThreads}, &Case::threads, "CPU threads"),
  };
  for (CaseField& field : all) field.flag = field.key;  // the source reports spell flags with underscores
  return all;
}

}  // namespace

template <>
std::span<const CaseField> fields<AttentionCase>() {
  static const std::vector<CaseField> all = case_fields();
  return all;
}

}  // namespace strobe

namespace strobe::bench {

Json config_json(const AttentionCase& one) {
  Json config = Json::object();
  for (const Field<AttentionCase>& field : fields<AttentionCase>()) {
    if (field.key != "deterministic" || one.deterministic) config.set(field.key, field.json(one));
  }
  config.set("layout", "bhsd").set("unmasked_scores", one.heads * unmasked_scores(one));
  return config.set("scaled", one.scaled);
}

std::vector<std::string> flags_of(const AttentionCase& one) {
  constexpr std::string_view kAlways[] = {"batch_size", "seq_len", "num_heads", "emb_dim",
                                          "dtype",      "device",  "threads"};
  const AttentionCase usual{.kv_heads = one.heads, .seqlen_k = one.seqlen_q, .head_dim = one.head_dim};
  std::vector<std::string> flags;
  for (const Field<AttentionCase>& field : fields<AttentionCase>()) {
    const bool is_usual =
        std::ranges::find(kAlways, field.key) == std::end(kAlways) && field.text(one) == field.text(usual);
    if (!is_usual) flags.insert(flags.end(), {"--" + field.flag, field.text(one)});
  }
  return flags;
}

}  // namespace strobe::bench
