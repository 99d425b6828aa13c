// Tokens as people write and read them: text for a model of bytes, numbers for one of a token file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lm/token_file.h"

namespace strobe::cli {

// The bytes of `text`, or the numbers of "15,27". Throws Error(invalid_argument) for what is no token below
// `vocabulary`, or none at all.
std::vector<std::int32_t> tokens_of(std::string_view text, lm::DataFormat format, std::int64_t vocabulary);

// For a terminal: lines as they are, \xNN for control characters and what is not UTF-8; or "15,27". Ends a line.
std::string text_of(std::span<const std::int32_t> tokens, lm::DataFormat format);

}  // namespace strobe::cli
