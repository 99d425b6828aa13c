// Parses JSON (RFC 8259) strictly: no comments, no trailing commas, no numbers outside the RFC's grammar, only UTF-8.
#include <algorithm>
#include <charconv>

#include "core/fail.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/utf8.h"

namespace strobe {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

[[noreturn]] void refuse_size(std::size_t bytes) {
  fail(ErrorCode::invalid_argument, "json: the document has {} bytes or more; valid: up to {}", bytes, Json::kMaxBytes);
}

// Counts the items of each container in the value at the beginning of `text`, so that the parser allocates each
// container once. The counts are in the order in which containers open. Rejects a document with too many bytes or
// values before the parser allocates. For invalid JSON the counts are arbitrary; the parser rejects the text later.
std::vector<std::uint32_t> count_items(std::string_view text) {
  std::vector<std::uint32_t> counts;
  std::vector<std::size_t> open;  // indices into counts of the containers that are open
  std::size_t values = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i >= Json::kMaxBytes) refuse_size(i + 1);
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
        break;
      case '[':
      case '{':
        ++values;
        open.push_back(counts.size());
        counts.push_back(1);
        if (open.size() > std::size_t{Json::kMaxDepth} + 1) return counts;
        break;
      case ',':
        ++values;
        if (!open.empty()) ++counts[open.back()];
        break;
      case ']':
      case '}':
        if (!open.empty()) open.pop_back();
        break;
      default: break;
    }
    if (values > Json::kMaxValues) {
      fail(ErrorCode::invalid_argument, "json: the document must have at most {} values", Json::kMaxValues);
    }
    if (open.empty()) return counts;
  }
  return counts;
}

class Parser {
 public:
  Parser(std::string_view text, std::size_t& position) : text_(text), position_(position) {}

  Json next() {
    skip_space();
    const std::size_t begin = std::min(position_, text_.size());
    counts_ = count_items(text_.substr(begin));
    Json value = parse_value(0);
    if (position_ - begin > Json::kMaxBytes) refuse_size(position_ - begin);
    skip_space();
    return value;
  }

  Json whole() {
    if (text_.size() > Json::kMaxBytes) refuse_size(text_.size());
    Json value = next();
    if (position_ != text_.size()) refuse("text after the value");
    return value;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::invalid_argument, "json: {} at byte {} of {}", what, position_, text_.size());
  }

  bool at_end() const { return position_ >= text_.size(); }

  void skip_space() {
    while (!at_end() && kSpace.find(text_[position_]) != std::string_view::npos) ++position_;
  }

  bool take(char c) {
    if (at_end() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect_word(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) refuse("unknown word");
    position_ += word.size();
  }

  Json parse_value(int depth) {
    if (depth > Json::kMaxDepth) refuse("nested too deep");
    skip_space();
    if (at_end()) refuse("end of text where a value was expected");
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

  // Rejects an object with a repeated key, because a lookup and a loop over the members would see different values.
  void refuse_repeated_keys(const Json::Object& members) const {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, value] : members) keys.push_back(key);
    std::ranges::sort(keys);
    if (const auto repeated = std::ranges::adjacent_find(keys); repeated != keys.end()) {
      refuse(fmt::format("key {} twice in the object that ends", printable_value(*repeated)));
    }
  }

  // Returns the item count of the next container.
  std::size_t next_count() { return opened_ < counts_.size() ? counts_[opened_++] : 0; }

  Json parse_object(int depth) {
    take('{');
    const std::size_t count = next_count();
    skip_space();
    if (take('}')) return Json::object();
    Json::Object members;
    members.reserve(count);
    do {
      skip_space();
      if (at_end() || text_[position_] != '"') refuse("no key where one was expected");
      std::string key = parse_string();
      skip_space();
      if (!take(':')) refuse("no colon after a key");
      members.emplace_back(std::move(key), parse_value(depth + 1));
      skip_space();
    } while (take(','));
    if (!take('}')) refuse("no closing brace");
    refuse_repeated_keys(members);
    return Json::object(std::move(members));
  }

  Json parse_array(int depth) {
    take('[');
    const std::size_t count = next_count();
    skip_space();
    if (take(']')) return Json::array();
    Json::Array items;
    items.reserve(count);
    do {
      items.push_back(parse_value(depth + 1));
      skip_space();
    } while (take(','));
    if (!take(']')) refuse("no closing bracket");
    return Json::array(std::move(items));
  }

  // Skips digits; rejects the number if there is none.
  void take_digits(std::size_t begin) {
    const std::size_t first = position_;
    while (!at_end() && text_[position_] >= '0' && text_[position_] <= '9') ++position_;
    if (position_ == first) refuse_number(begin, "not a number");
  }

  [[noreturn]] void refuse_number(std::size_t begin, std::string_view what) {
    position_ = begin;
    refuse(what);
  }

  Json parse_number() {
    const std::size_t begin = position_;
    bool is_integer = true;
    take('-');
    const bool leading_zero = take('0');
    if (!leading_zero) take_digits(begin);
    if (take('.')) {
      is_integer = false;
      take_digits(begin);
    }
    if (take('e') || take('E')) {
      is_integer = false;
      if (!take('+')) take('-');
      take_digits(begin);
    }
    if (leading_zero && !at_end() && text_[position_] >= '0' && text_[position_] <= '9') {
      refuse_number(begin, "not a number");
    }
    const char *first = text_.data() + begin, *last = text_.data() + position_;
    std::int64_t integer = 0;
    if (is_integer && std::from_chars(first, last, integer).ec == std::errc()) return integer;
    double number = 0;
    if (std::from_chars(first, last, number).ec != std::errc()) refuse_number(begin, "a number out of range");
    return number;
  }

  unsigned parse_hex4() {
    unsigned code = 0;
    const std::string_view digits = text_.substr(std::min(position_, text_.size()), 4);
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || stop != digits.data() + 4) refuse("bad \\u escape");
    position_ += 4;
    return code;
  }

  void append_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
    } else {
      if (code < 0x10000) {
        out += static_cast<char>(0xe0 | code >> 12);
      } else {
        out += static_cast<char>(0xf0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
      }
      out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    }
    out += static_cast<char>(0x80 | (code & 0x3f));
  }

  void parse_escape(std::string& out) {
    if (at_end()) refuse("unfinished escape");
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

  // Consumes and returns the characters of a string up to the next quote or escape.
  std::string_view plain_characters() {
    const std::size_t begin = position_;
    while (!at_end() && text_[position_] != '"' && text_[position_] != '\\') {
      const auto c = static_cast<unsigned char>(text_[position_]);
      if (c < 0x20) refuse("control character in a string");
      const std::size_t length = c < 0x80 ? 1 : utf8_length(text_.substr(position_));
      if (length == 0) refuse("a byte that is not UTF-8");
      position_ += length;
    }
    return text_.substr(begin, position_ - begin);
  }

  std::string parse_string() {
    take('"');
    std::string out(plain_characters());
    while (take('\\')) {
      parse_escape(out);
      out += plain_characters();
    }
    if (!take('"')) refuse("unfinished string");
    return out;
  }

  std::string_view text_;
  std::size_t& position_;
  std::vector<std::uint32_t> counts_;
  std::size_t opened_ = 0;  // containers opened so far
};

}  // namespace

Json Json::parse(std::string_view text) {
  std::size_t position = 0;
  return Parser(text, position).whole();
}

Json Json::parse_next(std::string_view text, std::size_t& position) { return Parser(text, position).next(); }

}  // namespace strobe
