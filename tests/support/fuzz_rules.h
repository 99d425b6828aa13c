// Rules that fuzz harnesses share. A broken rule throws BrokenRule: libFuzzer does not catch it and keeps the input; a
// replay test reports it as a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/utf8.h"
#include "strobe/error.h"

namespace strobe::test {

struct BrokenRule : std::logic_error {
  explicit BrokenRule(const std::string& rule) : std::logic_error("broken rule: " + rule) {}
};

inline void require(bool holds, const char* rule) {
  if (!holds) throw BrokenRule(rule);
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

// Returns true if the text is UTF-8 without control characters other than those in `allowed`.
inline bool is_printable(std::string_view text, std::string_view allowed = "") {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    const auto first = static_cast<unsigned char>(text[0]);
    if ((first < 0x20 || first == 0x7f) && allowed.find(text[0]) == std::string_view::npos) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Length limit of an error line in bytes. Quoted input is truncated, so errors do not grow with the input.
inline constexpr std::size_t kLongestRefusal = 1500;

inline void require_refusal(const Error& error) {
  const std::string_view line = error.what();
  require(error.code() == ErrorCode::invalid_argument, "bad input is rejected as invalid_argument");
  require(!line.empty(), "an error has a text");
  require(is_printable(line), "an error is one printable line");
  require(line.size() <= kLongestRefusal, "the length of an error is bounded");
}

// Runs `read`. Returns false if it throws the Error of a rejected input; other exceptions propagate.
template <class Read>
bool is_accepted(Read&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    require_refusal(error);
    return false;
  }
}

}  // namespace strobe::test
