// Writes and reads JSON (RFC 8259). The reader is strict: no comments, no trailing commas, bounded depth.
#include "core/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/fail.h"
#include "core/printable.h"
#include "core/utf8.h"

namespace strobe {
namespace {

constexpr int kMaxDepth = 200;

// A byte that is not part of valid UTF-8 becomes U+FFFD: strict readers refuse a text that has any.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const char c = text[i];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(1, length);
  }
  out += '"';
}

class Parser {
 public:
  Parser(std::string_view text, std::size_t& position) : text_(text), position_(position) {}

  Json next() {
    Json value = parse_value(0);
    skip_space();
    return value;
  }

  Json whole() {
    Json value = next();
    if (position_ != text_.size()) refuse("text after the value");
    return value;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::invalid_argument, "json: {} at byte {} of {}", what, position_, text_.size());
  }

  void skip_space() {
    while (position_ < text_.size() && std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
  }

  bool take(char c) {
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect_word(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) refuse("unknown word");
    position_ += word.size();
  }

  Json parse_value(int depth) {
    if (depth > kMaxDepth) refuse("nested too deep");
    skip_space();
    if (position_ >= text_.size()) refuse("end of text where a value was expected");
    switch (text_[position_]) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"': return parse_string();
      case 't': expect_word("true"); return true;
      case 'f': expect_word("false"); return false;
      case 'n': expect_word("null"); return nullptr;
      default: return parse_number();
    }
  }

  Json parse_object(int depth) {
    take('{');
    Json::Object members;
    skip_space();
    if (take('}')) return Json::object();
    do {
      skip_space();
      if (position_ >= text_.size() || text_[position_] != '"') refuse("no key where one was expected");
      std::string key = parse_string();
      skip_space();
      if (!take(':')) refuse("no colon after a key");
      members.emplace_back(std::move(key), parse_value(depth + 1));
      skip_space();
    } while (take(','));
    if (!take('}')) refuse("no closing brace");
    return Json::object(std::move(members));
  }

  Json parse_array(int depth) {
    take('[');
    Json::Array items;
    skip_space();
    if (take(']')) return Json::array();
    do {
      items.push_back(parse_value(depth + 1));
      skip_space();
    } while (take(','));
    if (!take(']')) refuse("no closing bracket");
    return Json::array(std::move(items));
  }

  Json parse_number() {
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           std::string_view("+-.eE0123456789").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
    const std::string_view digits = text_.substr(begin, position_ - begin);
    const std::string_view magnitude = digits.substr(digits.starts_with('-') ? 1 : 0);
    const bool leading_zero = magnitude.size() > 1 && magnitude[0] == '0' && magnitude[1] >= '0' && magnitude[1] <= '9';
    if (magnitude.empty() || magnitude[0] < '0' || magnitude[0] > '9' || leading_zero || digits.back() == '.') {
      position_ = begin;
      refuse("not a number");
    }
    const char* end = digits.data() + digits.size();
    std::int64_t integer = 0;
    if (const auto [stop, code] = std::from_chars(digits.data(), end, integer); code == std::errc() && stop == end) {
      return integer;
    }
    double number = 0;
    const auto [stop, code] = std::from_chars(digits.data(), end, number);
    if (code != std::errc() || stop != end) {
      position_ = begin;
      refuse("not a number");
    }
    return number;
  }

  unsigned parse_hex4() {
    unsigned code = 0;
    const std::string_view digits = text_.substr(position_, 4);
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || stop != digits.data() + 4) refuse("bad \\u escape");
    position_ += 4;
    return code;
  }

  void append_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | code >> 12);
      out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      out += static_cast<char>(0xf0 | code >> 18);
      out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
      out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
  }

  void parse_escape(std::string& out) {
    if (position_ >= text_.size()) refuse("unfinished escape");
    const char c = text_[position_++];
    switch (c) {
      case '"':
      case '\\':
      case '/': out += c; return;
      case 'b': out += '\b'; return;
      case 'f': out += '\f'; return;
      case 'n': out += '\n'; return;
      case 'r': out += '\r'; return;
      case 't': out += '\t'; return;
      case 'u': break;
      default: refuse("unknown escape");
    }
    unsigned code = parse_hex4();
    if (code >= 0xd800 && code < 0xdc00) {  // first half of a surrogate pair
      if (!take('\\') || !take('u')) refuse("half of a surrogate pair");
      const unsigned low = parse_hex4();
      if (low < 0xdc00 || low > 0xdfff) refuse("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      refuse("half of a surrogate pair");
    }
    append_utf8(out, code);
  }

  std::string parse_string() {
    take('"');
    std::string out;
    while (position_ < text_.size()) {
      const char c = text_[position_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) refuse("control character in a string");
      if (c == '\\') {
        parse_escape(out);
      } else {
        out += c;
      }
    }
    refuse("unfinished string");
  }

  std::string_view text_;
  std::size_t& position_;
};

[[noreturn]] void wrong_kind(const char* wanted, const Json& value) {
  fail(ErrorCode::invalid_argument, "json: {} is not {}", printable(value.dump(), 60), wanted);
}

}  // namespace

Json Json::array(Array items) {
  Json json;
  json.value_ = std::move(items);
  return json;
}

Json Json::object(Object members) {
  Json json;
  json.value_ = std::move(members);
  return json;
}

bool Json::as_bool() const {
  if (!is_bool()) wrong_kind("true or false", *this);
  return std::get<bool>(value_);
}

double Json::as_number() const {
  if (is_integer()) return static_cast<double>(std::get<std::int64_t>(value_));
  if (!is_number()) wrong_kind("a number", *this);
  return std::get<double>(value_);
}

std::int64_t Json::as_integer() const {
  if (!is_integer()) wrong_kind("an integer", *this);
  return std::get<std::int64_t>(value_);
}

const std::string& Json::as_string() const {
  if (!is_string()) wrong_kind("a string", *this);
  return std::get<std::string>(value_);
}

const Json::Array& Json::as_array() const {
  if (!is_array()) wrong_kind("an array", *this);
  return std::get<Array>(value_);
}

const Json::Object& Json::as_object() const {
  if (!is_object()) wrong_kind("an object", *this);
  return std::get<Object>(value_);
}

void Json::push_back(Json item) {
  if (!is_array()) wrong_kind("an array", *this);
  std::get<Array>(value_).push_back(std::move(item));
}

Json& Json::set(std::string key, Json value) {
  if (!is_object()) wrong_kind("an object", *this);
  auto& members = std::get<Object>(value_);
  for (auto& [name, old] : members) {
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  }
  members.emplace_back(std::move(key), std::move(value));
  return *this;
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& [name, value] : std::get<Object>(value_)) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  const Json* value = find(key);
  if (!value) fail(ErrorCode::invalid_argument, "json: no key \"{}\"", key);
  return *value;
}

std::size_t Json::size() const { return is_object() ? std::get<Object>(value_).size() : as_array().size(); }

bool Json::fits_one_line() const {
  if (is_object()) {
    const auto& members = std::get<Object>(value_);
    if (members.size() > 4) return false;
    for (const auto& [name, value] : members) {
      if (value.is_object() || value.is_array()) return false;
      if (value.is_string() && value.as_string().size() > 40) return false;
    }
  } else if (is_array()) {
    for (const Json& item : std::get<Array>(value_)) {
      if (item.is_object() || item.is_array() || item.is_string()) return false;
    }
  }
  return true;
}

void Json::dump_to(std::string& out, int indent, int depth) const {
  const bool lines = indent > 0 && !fits_one_line();
  const auto new_line = [&](int level) {
    if (lines) out += '\n' + std::string(static_cast<std::size_t>(indent * level), ' ');
  };
  if (is_null()) {
    out += "null";
  } else if (is_bool()) {
    out += std::get<bool>(value_) ? "true" : "false";
  } else if (is_integer()) {
    out += std::to_string(std::get<std::int64_t>(value_));
  } else if (is_string()) {
    append_string(out, std::get<std::string>(value_));
  } else if (is_array()) {
    const auto& items = std::get<Array>(value_);
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += lines || indent == 0 ? "," : ", ";
      new_line(depth + 1);
      items[i].dump_to(out, indent, depth + 1);
    }
    if (!items.empty()) new_line(depth);
    out += ']';
  } else if (is_object()) {
    const auto& members = std::get<Object>(value_);
    out += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i) out += lines || indent == 0 ? "," : ", ";
      new_line(depth + 1);
      append_string(out, members[i].first);
      out += indent == 0 ? ":" : ": ";
      members[i].second.dump_to(out, indent, depth + 1);
    }
    if (!members.empty()) new_line(depth);
    out += '}';
  } else {
    const double number = std::get<double>(value_);
    out += std::isfinite(number) ? fmt::format("{}", number) : "null";
  }
}

std::string Json::dump(int indent) const {
  std::string out;
  dump_to(out, indent, 0);
  return out;
}

Json Json::parse(std::string_view text) {
  std::size_t position = 0;
  return Parser(text, position).whole();
}

Json Json::parse_next(std::string_view text, std::size_t& position) { return Parser(text, position).next(); }

}  // namespace strobe
