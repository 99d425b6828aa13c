// Converts tokens from and to text: bytes for a byte-level model, token numbers for a model trained on a token file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lm/data/token_file.h"

namespace strobe::cli {

// Returns the tokens of a prompt: the bytes of `text`, or the numbers of "15,27". Throws Error(invalid_argument) for an
// empty text and for a token that is not below `vocabulary`.
std::vector<std::int32_t> tokens_of(std::string_view text, lm::DataFormat format, std::int64_t vocabulary);

// Returns tokens as text for a terminal: newlines and tabs are kept, other control characters and invalid UTF-8 become
// \xNN. Tokens of a token file become "15,27". The text ends with a newline.
std::string text_of(std::span<const std::int32_t> tokens, lm::DataFormat format);

}  // namespace strobe::cli
