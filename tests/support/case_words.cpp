// Converts test cases from text and to text.
#include <fmt/ranges.h>

#include <charconv>
#include <map>
#include <type_traits>

#include "core/case_text.h"
#include "core/fail.h"
#include "support/case.h"

namespace strobe::test {

const char* text_of(Alignment alignment) {
  return alignment == Alignment::unset ? "unset" : alignment == Alignment::top_left ? "top_left" : "bottom_right";
}

const char* text_of(Lengths lengths) {
  switch (lengths) {
    case Lengths::none: return "none";
    case Lengths::keys: return "keys";
    case Lengths::rows: return "rows";
    case Lengths::both: return "both";
    case Lengths::packed: return "packed";
  }
  return "unknown";
}

const char* text_of(BiasValues values) {
  switch (values) {
    case BiasValues::normal: return "normal";
    case BiasValues::some_minus_inf: return "some_minus_inf";
    case BiasValues::rows_minus_inf: return "rows_minus_inf";
    case BiasValues::lowest: return "lowest";
  }
  return "unknown";
}

const char* text_of(Values values) {
  return values == Values::normal ? "normal" : values == Values::large ? "large" : "integer";
}

namespace {

constexpr std::pair<const char*, Layout Case::*> kLayoutWords[] = {
    {"q", &Case::layout_q},   {"k", &Case::layout_k},     {"v", &Case::layout_v},
    {"do", &Case::layout_do}, {"lse", &Case::layout_lse}, {"out", &Case::layout_out}};

[[noreturn]] void refuse_value(const CaseWord& word) {
  fail(ErrorCode::invalid_argument, "{}={}: not a value of a test case", word.name, word.value);
}

template <class Number>
Number number_of(const CaseWord& word, std::string_view text) {
  Number number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) refuse_value(word);
  return number;
}

bool switch_of(const CaseWord& word) {
  if (word.value != "on" && word.value != "off" && word.value != "true" && word.value != "false") refuse_value(word);
  return word.value == "on" || word.value == "true";
}

// Returns the member of `all` whose text equals the word's value.
template <class Value>
Value choice_of(const CaseWord& word, std::initializer_list<Value> all, auto&& text_of_value) {
  for (const Value value : all) {
    if (word.value == text_of_value(value)) return value;
  }
  refuse_value(word);
}

DType dtype_of_word(const CaseWord& word) {
  return choice_of(word, {DType::fp32, DType::fp16, DType::bf16}, [](DType dtype) { return name_of(dtype); });
}

Layout layout_of_word(const CaseWord& word) {
  for (const Layout layout : kLayouts) {
    if (word.value == name_of(layout)) return layout;
  }
  refuse_value(word);
}

Window window_of_word(const CaseWord& word) {
  const std::size_t colon = std::min(word.value.find(':'), word.value.size() - 1);
  return {number_of<std::int64_t>(word, std::string_view(word.value).substr(0, colon)),
          number_of<std::int64_t>(word, std::string_view(word.value).substr(colon + 1))};
}

std::vector<std::int64_t> list_of_word(const CaseWord& word) {
  std::vector<std::int64_t> numbers;
  for (std::string_view rest = word.value; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    numbers.push_back(number_of<std::int64_t>(word, rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return numbers;
}

void set_bias(const CaseWord& word, Case& c) {
  const std::string& value = word.value;
  const auto is_full = [&](std::size_t i, char full) {
    if (value[i] != full && value[i] != '1') refuse_value(word);
    return value[i] == full;
  };
  if (value.size() != 4 || value[3] != 'k') refuse_value(word);
  c.bias = true;
  c.bias_shape = {is_full(0, 'b'), is_full(1, 'h'), is_full(2, 'q')};
}

void set_mask(const CaseWord& word, Case& c) {
  const std::string& value = word.value;
  const auto is_full = [&](std::size_t i, char full) {
    if (value[i] != full && value[i] != '1') refuse_value(word);
    return value[i] == full;
  };
  if (value.size() != 4) refuse_value(word);
  c.mask = true;
  c.mask_shape = {is_full(0, 'b'), is_full(1, 'h'), is_full(2, 'q'), is_full(3, 'k')};
}

using ApplyWord = void (*)(const CaseWord&, Case&);

template <auto kMember>
void set_number(const CaseWord& word, Case& c) {
  c.*kMember = number_of<std::remove_reference_t<decltype(c.*kMember)>>(word, word.value);
}

template <bool Case::*kMember>
void set_switch(const CaseWord& word, Case& c) {
  c.*kMember = switch_of(word);
}

// Sets a size and its second size, such as query rows and keys. A later word may change the second one.
template <std::int64_t Case::*kFirst, std::int64_t Case::*kSecond>
void set_sizes(const CaseWord& word, Case& c) {
  c.*kFirst = c.*kSecond = number_of<std::int64_t>(word, word.value);
}

const std::map<std::string_view, ApplyWord>& case_word_table() {
  static const std::map<std::string_view, ApplyWord> table = {
      {"batch_size", set_number<&Case::batch>},
      {"num_heads", set_sizes<&Case::heads_q, &Case::heads_kv>},
      {"num_kv_heads", set_number<&Case::heads_kv>},
      {"seq_len", set_sizes<&Case::sq, &Case::sk>},
      {"seq_len_k", set_number<&Case::sk>},
      {"head_dim", set_sizes<&Case::d, &Case::dv>},
      {"head_dim_v", set_number<&Case::dv>},
      {"softcap", set_number<&Case::softcap>},
      {"dropout", set_number<&Case::dropout>},
      {"index_bits", set_number<&Case::index_bits>},
      {"misalign", set_number<&Case::misalign>},
      {"threads", set_number<&Case::threads>},
      {"seed", set_number<&Case::seed>},
      {"causal", set_switch<&Case::causal>},
      {"alibi", set_switch<&Case::alibi>},
      {"sinks", set_switch<&Case::sinks>},
      {"dbias", set_switch<&Case::dbias>},
      {"fused", set_switch<&Case::fused>},
      {"own_workspace", set_switch<&Case::own_workspace>},
      {"alibi_batch", set_switch<&Case::alibi_batch>},
      {"seed_data", set_switch<&Case::seed_data>},
      {"mask_transposed", set_switch<&Case::mask_transposed>},
      {"batch_invariant", set_switch<&Case::batch_invariant>},
      {"d_lse", set_switch<&Case::d_lse>},
      {"bias", set_bias},
      {"mask", set_mask},
      {"first_keys", [](const CaseWord& word, Case& c) { c.first_keys = list_of_word(word); }},
      {"dtype", [](const CaseWord& word, Case& c) { c.dtype = dtype_of_word(word); }},
      {"bias_dtype", [](const CaseWord& word, Case& c) { c.bias_dtype = dtype_of_word(word); }},
      {"bias_layout", [](const CaseWord& word, Case& c) { c.layout_bias = layout_of_word(word); }},
      {"scale", [](const CaseWord& word, Case& c) { c.scale = number_of<float>(word, word.value); }},
      {"window", [](const CaseWord& word, Case& c) { c.window = window_of_word(word); }},
      {"lengths_q", [](const CaseWord& word, Case& c) { c.lengths_q = list_of_word(word); }},
      {"lengths_k", [](const CaseWord& word, Case& c) { c.lengths_k = list_of_word(word); }},
      {"packed", [](const CaseWord& word, Case& c) { c.lengths = switch_of(word) ? Lengths::packed : Lengths::none; }},
      {"align",
       [](const CaseWord& word, Case& c) {
         c.alignment = choice_of(word, {Alignment::unset, Alignment::top_left, Alignment::bottom_right},
                                 [](Alignment alignment) { return text_of(alignment); });
       }},
      {"values",
       [](const CaseWord& word, Case& c) {
         c.values = choice_of(word, {Values::normal, Values::large, Values::integer},
                              [](Values values) { return text_of(values); });
       }},
      {"bias_values",
       [](const CaseWord& word, Case& c) {
         c.bias_values = choice_of(
             word, {BiasValues::normal, BiasValues::some_minus_inf, BiasValues::rows_minus_inf, BiasValues::lowest},
             [](BiasValues values) { return text_of(values); });
       }},
  };
  return table;
}

void apply_word(const CaseWord& word, Case& c) {
  for (const auto& [name, member] : kLayoutWords) {
    if (word.name == name) return void(c.*member = layout_of_word(word));
  }
  const auto found = case_word_table().find(word.name);
  if (found == case_word_table().end()) {
    fail(ErrorCode::invalid_argument, "{}: not an option of a test case", word.name);
  }
  found->second(word, c);
}

}  // namespace

std::string text_of(const Case& c) {
  const auto pair = [](auto first, char separator, auto second) {
    return first == second ? fmt::format("{}", first) : fmt::format("{}{}{}", first, separator, second);
  };
  std::string text = fmt::format("b{} h{} s{} d{} {}", c.batch, pair(c.heads_q, '/', c.heads_kv), pair(c.sq, 'x', c.sk),
                                 pair(c.d, '/', c.dv), name_of(c.dtype));
  const auto add = [&](bool is_set, const std::string& word) { text += is_set ? " " + word : ""; };
  const bool has_alignment = c.alignment != Alignment::unset;
  add(c.causal, has_alignment ? fmt::format("causal={}", text_of(c.alignment)) : "causal");
  add(has_alignment && !c.causal, fmt::format("align={}", text_of(c.alignment)));
  add(c.window.left >= 0 || c.window.right >= 0, fmt::format("window={}:{}", c.window.left, c.window.right));
  add(c.scale.has_value(), fmt::format("scale={}", c.scale.value_or(0)));
  add(c.softcap != 0, fmt::format("softcap={}", c.softcap));
  add(c.alibi, "alibi");
  add(c.alibi_batch, "alibi_batch");
  add(c.mask, fmt::format("mask={}{}{}{}", c.mask_shape.batch ? 'b' : '1', c.mask_shape.heads ? 'h' : '1',
                          c.mask_shape.rows ? 'q' : '1', c.mask_shape.keys ? 'k' : '1'));
  add(c.mask_transposed, "mask_transposed");
  add(c.seed_data, "seed_data");
  add(c.d_lse, "d_lse");
  add(c.bias, fmt::format("bias={}{}{}k", c.bias_shape.batch ? 'b' : '1', c.bias_shape.heads ? 'h' : '1',
                          c.bias_shape.rows ? 'q' : '1'));
  add(c.bias_dtype != DType::fp32, fmt::format("bias_dtype={}", name_of(c.bias_dtype)));
  add(c.bias_values != BiasValues::normal, fmt::format("bias_values={}", text_of(c.bias_values)));
  add(c.layout_bias != Layout::bhsd, fmt::format("bias_layout={}", name_of(c.layout_bias)));
  add(!c.dbias, "dbias=off");
  add(c.sinks, "sinks");
  add(c.dropout != 0, fmt::format("dropout={}", c.dropout));
  add(c.packed(), "packed");
  add(!c.lengths_q.empty(), fmt::format("lengths_q={}", fmt::join(c.lengths_q, ",")));
  add(!c.lengths_k.empty(), fmt::format("lengths_k={}", fmt::join(c.lengths_k, ",")));
  add(!c.first_keys.empty(), fmt::format("first_keys={}", fmt::join(c.first_keys, ",")));
  add(c.index_bits != 32, fmt::format("index_bits={}", c.index_bits));
  for (const auto& [name, member] : kLayoutWords) {
    add(c.*member != Layout::bhsd, fmt::format("{}={}", name, name_of(c.*member)));
  }
  add(c.fused, "fused");
  add(c.misalign != 0, fmt::format("misalign={}", c.misalign));
  add(c.values != Values::normal, fmt::format("values={}", text_of(c.values)));
  add(c.threads != 1, fmt::format("threads={}", c.threads));
  add(c.own_workspace, "own_workspace");
  add(c.batch_invariant, "batch_invariant");
  return text + fmt::format(" seed={}", c.seed);
}

Case parse_case(std::string_view text) {
  Case c;
  for (const CaseWord& word : case_words(text)) apply_word(word, c);
  if (!c.packed() && !(c.lengths_q.empty() && c.lengths_k.empty())) {
    c.lengths = c.lengths_k.empty() ? Lengths::rows : c.lengths_q.empty() ? Lengths::keys : Lengths::both;
  }
  return c;
}

std::string describe(const Case& c) {
  return (c.index >= 0 ? fmt::format("STROBE_TEST_CASE={}: ", c.index) : std::string()) + text_of(c);
}

}  // namespace strobe::test
