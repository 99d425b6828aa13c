// JSON values and their writer. The parser is in json_reader.cpp.
#include "core/json.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "core/printable.h"
#include "core/utf8.h"

namespace strobe {
namespace {

// Replaces each byte that is not part of valid UTF-8 by U+FFFD, because strict parsers reject invalid UTF-8.
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

[[noreturn]] void wrong_kind(const char* wanted, const Json& value) {
  fail(ErrorCode::invalid_argument, "json: {} is not {}", printable(value.dump(), 60), wanted);
}

}  // namespace

Json Json::array(Array items) {
  Json json;
  json.value_ = Boxed<Array>(std::move(items));
  return json;
}

Json Json::object(Object members) {
  Json json;
  json.value_ = Boxed<Object>(std::move(members));
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
  return std::get<Boxed<std::string>>(value_).get();
}

const Json::Array& Json::as_array() const {
  if (!is_array()) wrong_kind("an array", *this);
  return std::get<Boxed<Array>>(value_).get();
}

const Json::Object& Json::as_object() const {
  if (!is_object()) wrong_kind("an object", *this);
  return std::get<Boxed<Object>>(value_).get();
}

void Json::push_back(Json item) {
  if (!is_array()) wrong_kind("an array", *this);
  std::get<Boxed<Array>>(value_).writable().push_back(std::move(item));
}

Json& Json::set(std::string key, Json value) {
  if (!is_object()) wrong_kind("an object", *this);
  Object& members = std::get<Boxed<Object>>(value_).writable();
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
  for (const auto& [name, value] : as_object()) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  const Json* value = find(key);
  if (!value) fail(ErrorCode::invalid_argument, "json: no key \"{}\"", key);
  return *value;
}

std::size_t Json::size() const { return is_object() ? as_object().size() : as_array().size(); }

bool Json::fits_one_line() const {
  if (is_object()) {
    const Object& members = as_object();
    if (members.size() > 4) return false;
    for (const auto& [name, value] : members) {
      if (value.is_object() || value.is_array()) return false;
      if (value.is_string() && value.as_string().size() > 40) return false;
    }
  } else if (is_array()) {
    for (const Json& item : as_array()) {
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
    append_string(out, as_string());
  } else if (is_array()) {
    const Array& items = as_array();
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += lines || indent == 0 ? "," : ", ";
      new_line(depth + 1);
      items[i].dump_to(out, indent, depth + 1);
    }
    if (!items.empty()) new_line(depth);
    out += ']';
  } else if (is_object()) {
    const Object& members = as_object();
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
    if (number == 0 && std::signbit(number)) {
      out += "-0.0";  // "-0" would be read as the integer 0
    } else {
      out += std::isfinite(number) ? fmt::format("{}", number) : "null";
    }
  }
}

std::string Json::dump(int indent) const {
  std::string out;
  dump_to(out, indent, 0);
  return out;
}

}  // namespace strobe
