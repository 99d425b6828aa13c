// Parses the one-line text form of a case (one attention problem) or of a group of cases. Used for `--cells`, the files
// of `strobe sweep` and of `strobe compare --require`, the course and tests:
//   b2 h4/2 s100x37 d24/16 bf16 causal=bottom_right window=3:-1 sinks
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe {

struct CaseWord {
  std::string name;   // flag of `strobe bench`, and key in the "config" of a result row: "num_kv_heads"
  std::string value;  // "on" for a name without a value; a comma-separated list stays one string
};

// Parses words that are separated by spaces:
//   bN               batch_size
//   hN hN/M          num_heads, num_kv_heads
//   sN sNxM          seq_len, seq_len_k
//   dN dN/M          head_dim, head_dim_v
//   eN               emb_dim
//   fp32 fp16 bf16   dtype
//   causal           causal=on
//   causal=ALIGN     causal=on and align=ALIGN, for top_left and bottom_right
//   NAME, NAME=VALUE any other option
// Each number or type may be a comma-separated list. The caller checks names and values. Throws
// Error(invalid_argument), quoting the word, if a word has none of these forms.
std::vector<CaseWord> case_words(std::string_view text);

// Converts the words of a line to flags. If the first word is a size or a type, the words before the first flag are the
// text of a case. Each of them becomes one or more flags. All other words are copied.
std::vector<std::string> with_case_flags(std::span<const std::string> words);

}  // namespace strobe
