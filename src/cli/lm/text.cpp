// Converts between tokens and text.
#include "cli/lm/text.h"

#include <fmt/format.h>

#include "app/options.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {

std::vector<std::int32_t> tokens_of(std::string_view text, lm::DataFormat format, std::int64_t vocabulary) {
  if (text.empty()) fail(ErrorCode::invalid_argument, "--prompt: is empty; valid: one token or more");
  std::vector<std::int32_t> tokens;
  if (format != lm::DataFormat::text) {
    for (const std::string& number : split(text, ',')) {
      tokens.push_back(static_cast<std::int32_t>(parse_integer("--prompt", number, 0, vocabulary - 1)));
    }
    return tokens;
  }
  for (const char c : text) {
    const auto token = static_cast<std::int32_t>(static_cast<unsigned char>(c));
    if (token >= vocabulary) {
      fail(ErrorCode::invalid_argument, "--prompt: byte {} is not a token; valid: 0 to {}", token, vocabulary - 1);
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::string text_of(std::span<const std::int32_t> tokens, lm::DataFormat format) {
  if (format != lm::DataFormat::text) return fmt::format("{}\n", fmt::join(tokens, ","));
  std::string bytes;
  for (const std::int32_t token : tokens) {
    bytes += token < lm::kBytes ? std::string(1, static_cast<char>(token)) : fmt::format("<{}>", token);
  }
  std::string shown;
  for (const std::string& line : split(bytes, '\n')) {
    std::vector<std::string> fields = split(line, '\t');
    for (std::string& field : fields) field = printable(field, std::string_view::npos);
    shown += fmt::format("{}\n", fmt::join(fields, "\t"));
  }
  return shown;
}

}  // namespace strobe::cli
