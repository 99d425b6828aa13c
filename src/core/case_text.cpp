// Parses the text of a case into names and values.
#include "core/case_text.h"

#include <algorithm>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe {
namespace {

struct SizeWord {
  char letter;
  char separator;  // before the second size; 0 if the word has only one size
  const char* first;
  const char* second;
};
constexpr SizeWord kSizeWords[] = {{'b', 0, "batch_size", ""},
                                   {'h', '/', "num_heads", "num_kv_heads"},
                                   {'s', 'x', "seq_len", "seq_len_k"},
                                   {'d', '/', "head_dim", "head_dim_v"},
                                   {'e', 0, "emb_dim", ""}};
constexpr std::string_view kTypes[] = {"fp32", "fp16", "bf16"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

const SizeWord* size_word_of(std::string_view word) {
  if (word.size() < 2 || !is_digit(word[1])) return nullptr;
  const auto found = std::ranges::find(kSizeWords, word[0], &SizeWord::letter);
  return found == std::end(kSizeWords) ? nullptr : found;
}

bool is_type_list(std::string_view word) {
  const std::string_view first = word.substr(0, word.find(','));
  if (std::ranges::find(kTypes, first) == std::end(kTypes)) return false;
  return first.size() == word.size() || is_type_list(word.substr(first.size() + 1));
}

bool is_number_list(std::string_view text) {
  const bool has_only = std::ranges::all_of(text, [](char c) { return is_digit(c) || c == ','; });
  return has_only && !text.empty() && is_digit(text.front()) && is_digit(text.back()) && text.find(",,") == text.npos;
}

bool is_name(std::string_view text) {
  const auto in_name = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-'; };
  return !text.empty() && !is_digit(text[0]) && text[0] != '-' && std::ranges::all_of(text, in_name);
}

[[noreturn]] void refuse_word(std::string_view word) {
  fail(ErrorCode::invalid_argument,
       "\"{}\": not part of a case; valid: bN, hN/KV, sNxK, dN/DV, eN, fp32, fp16, bf16, NAME or NAME=VALUE, such as "
       "b2 h4/2 s100x37 d64 bf16 causal=bottom_right",
       printable(word));
}

void add_sizes(std::string_view word, const SizeWord& size, std::vector<CaseWord>& words) {
  const std::string_view sizes = word.substr(1);
  const std::size_t end = size.separator ? std::min(sizes.find(size.separator), sizes.size()) : sizes.size();
  if (!is_number_list(sizes.substr(0, end))) refuse_word(word);
  words.push_back({size.first, std::string(sizes.substr(0, end))});
  if (end == sizes.size()) return;
  if (!is_number_list(sizes.substr(end + 1))) refuse_word(word);
  words.push_back({size.second, std::string(sizes.substr(end + 1))});
}

void add_word(std::string_view word, std::vector<CaseWord>& words) {
  if (const SizeWord* const size = size_word_of(word)) return add_sizes(word, *size, words);
  if (is_type_list(word)) return words.push_back({"dtype", std::string(word)});
  const std::size_t equals = word.find('=');
  const std::string name(word.substr(0, equals));
  std::string value = equals == word.npos ? "on" : std::string(word.substr(equals + 1));
  if (!is_name(name) || value.empty()) refuse_word(word);
  if (name == "causal" && (value == "top_left" || value == "bottom_right")) {
    words.push_back({"causal", "on"});
    words.push_back({"align", std::move(value)});
  } else {
    words.push_back({name, std::move(value)});
  }
}

}  // namespace

std::vector<CaseWord> case_words(std::string_view text) {
  std::vector<CaseWord> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r"), text.size()));
    if (text.empty()) return words;
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r"));
    add_word(word, words);
    text.remove_prefix(word.size());
  }
}

std::vector<std::string> with_case_flags(std::span<const std::string> words) {
  std::vector<std::string> flags;
  std::size_t used = 0;
  if (!words.empty() && (size_word_of(words[0]) || is_type_list(words[0]))) {
    for (; used < words.size() && !words[used].starts_with('-'); ++used) {
      for (const CaseWord& word : case_words(words[used])) {
        flags.push_back("--" + word.name + (word.value == "on" ? "" : "=" + word.value));
      }
    }
  }
  flags.insert(flags.end(), words.begin() + static_cast<std::ptrdiff_t>(used), words.end());
  return flags;
}

}  // namespace strobe
