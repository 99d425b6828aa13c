// Escapes and truncates text for terminals.
#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"

namespace strobe {
namespace {

// U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069 reorder the text around them.
bool is_bidi_control(std::string_view character) {
  if (character == "\u061c" || character == "\u200e" || character == "\u200f") return true;
  return (character >= "\u202a" && character <= "\u202e") || (character >= "\u2066" && character <= "\u2069");
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  if (first == 0xc2) return static_cast<unsigned char>(character[1]) < 0xa0;  // U+0080 to U+009F
  return is_bidi_control(character);
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (out.size() >= most) return out + "...";
    const std::size_t length = utf8_length(text.substr(i));
    const std::string_view character = text.substr(i, std::max<std::size_t>(1, length));
    if (length > 0 && !is_control(character)) {
      out += character;
    } else {
      for (const char c : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    i += character.size();
  }
  return out;
}

std::string printable_value(std::string_view text) { return text.empty() ? "\"\"" : printable(text); }

}  // namespace strobe
