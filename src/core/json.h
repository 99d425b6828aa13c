// JSON values: what result files, `--json` and the protocol of the Python peers are made of.
// Objects keep the order in which keys were added; numbers that are not finite are written as null, and bytes that are
// not UTF-8 as U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace strobe {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  // Member by member: libstdc++ 12 destroys garbage if the copy of a variant of strings and vectors throws.
  Json(const Json& other) {
    std::visit([&](const auto& held) { value_ = std::decay_t<decltype(held)>(held); }, other.value_);
  }
  Json(Json&&) noexcept = default;
  Json& operator=(Json other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  ~Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(std::int64_t value) : value_(value) {}
  Json(std::size_t value) : value_(static_cast<std::int64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}

  static Json array(Array items = {});
  static Json object(Object members = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Each throws Error(invalid_argument) where the value is of another kind.
  bool as_bool() const;
  double as_number() const;
  std::int64_t as_integer() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  void push_back(Json item);               // arrays
  Json& set(std::string key, Json value);  // objects; replaces; returns *this
  const Json* find(std::string_view key) const;
  const Json& at(std::string_view key) const;  // throws where there is no such key
  std::size_t size() const;                    // of an array or object

  // indent 0: one line. Otherwise arrays of numbers and small objects still stay on one line.
  std::string dump(int indent = 0) const;

  // The whole text must be one value. Throws Error(invalid_argument) with the position of the first fault.
  static Json parse(std::string_view text);

  // The value that begins at `position`, which is moved past it and the space behind it: for several values in a text.
  // Throws likewise; `position` is then where the fault is.
  static Json parse_next(std::string_view text, std::size_t& position);

 private:
  void dump_to(std::string& out, int indent, int depth) const;
  bool fits_one_line() const;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

}  // namespace strobe
