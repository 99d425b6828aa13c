// Single quotes where a shell would see more than a word.
#include "app/quoted.h"

#include <algorithm>
#include <cctype>

namespace strobe {

std::string quoted(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_=.,:/+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string quoted_command(std::string_view name, std::span<const std::string_view> words) {
  std::string command = "strobe " + std::string(name);
  for (const std::string_view word : words) command += " " + quoted(word);
  return command;
}

}  // namespace strobe
