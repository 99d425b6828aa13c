// Reads any bytes as a JSON document. The parser must reject it with a one-line error, or the value must be the same
// after writing and reading. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

inline bool same_json(const Json& a, const Json& b) {
  if (a.is_number()) return b.is_number() && a.as_number() == b.as_number();
  if (a.is_array()) {
    if (!b.is_array() || a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same_json(a.as_array()[i], b.as_array()[i])) return false;
    }
    return true;
  }
  if (a.is_object()) {
    if (!b.is_object() || a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto &one = a.as_object()[i], &other = b.as_object()[i];
      if (one.first != other.first || !same_json(one.second, other.second)) return false;
    }
    return true;
  }
  if (a.is_string()) return b.is_string() && a.as_string() == b.as_string();
  if (a.is_bool()) return b.is_bool() && a.as_bool() == b.as_bool();
  return a.is_null() && b.is_null();
}

// Returns true if the bytes are a JSON document.
inline bool fuzz_json(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text = text_of(data, bytes);
  Json value;
  if (!is_accepted([&] { value = Json::parse(text); })) return false;
  for (const int indent : {0, 2}) {
    const std::string written = value.dump(indent);
    require(is_printable(written, indent == 0 ? "\x7f" : "\x7f\n"), "dump() writes UTF-8 without control characters");
    require(same_json(value, Json::parse(written)), "parsing what dump() writes returns the same value");
  }
  std::size_t position = 0;
  require(same_json(value, Json::parse_next(text, position)) && position == text.size(),
          "parse_next() reads a whole document as parse() does");
  return true;
}

}  // namespace strobe::test
