// The text of a case: one attention problem, or a group of them, on one line. Tests, `--cells`, grids, limits and the
// ladder read it:
//   b2 h4/2 s100x37 d24/16 bf16 causal=bottom_right window=3:-1 sinks
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe {

struct CaseWord {
  std::string name;   // as in bench's flags and the "config" of a row: "num_kv_heads"
  std::string value;  // "on" for a name without a value; a comma list is one text
};

// Words, separated by spaces:
//   bN               batch_size
//   hN hN/M          num_heads, num_kv_heads
//   sN sNxM          seq_len, seq_len_k
//   dN dN/M          head_dim, head_dim_v
//   eN               emb_dim
//   fp32 fp16 bf16   dtype
//   causal           causal=on
//   causal=ALIGN     causal=on and align=ALIGN, for top_left and bottom_right
//   NAME, NAME=VALUE any other option
// Each number or type may be a comma list. The caller checks names and values. Throws Error(invalid_argument) with the
// word.
std::vector<CaseWord> case_words(std::string_view text);

// Expands a line that holds flags, or begins with the text of a case: words from a size or a type to the first flag.
// The words of the text become flags too.
std::vector<std::string> with_case_flags(std::span<const std::string> words);

}  // namespace strobe
