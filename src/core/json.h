// JSON values with a parser and a writer. Result files, `--json` and messages between processes use them. Objects keep
// insertion order. The writer replaces a non-finite number by null and an invalid UTF-8 byte by U+FFFD. The parser
// rejects both, so writing a parsed value preserves it.
#pragma once

#include <cstdint>
#include <memory>
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

  // Limits of one parsed document. They bound its memory: a value takes at most 96 bytes plus its characters.
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxValues = std::size_t{1} << 22;
  static constexpr int kMaxDepth = 200;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(std::int64_t value) : value_(value) {}
  Json(std::size_t value) : value_(static_cast<std::int64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : Json(std::string(value)) {}
  Json(std::string_view value) : Json(std::string(value)) {}
  Json(std::string value) : value_(Boxed<std::string>(std::move(value))) {}

  static Json array(Array items = {});
  static Json object(Object members = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_string() const { return std::holds_alternative<Boxed<std::string>>(value_); }
  bool is_array() const { return std::holds_alternative<Boxed<Array>>(value_); }
  bool is_object() const { return std::holds_alternative<Boxed<Object>>(value_); }

  // Each throws Error(invalid_argument) if the value has another type.
  bool as_bool() const;
  double as_number() const;
  std::int64_t as_integer() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  void push_back(Json item);                     // arrays
  Json& set(std::string key, Json value);        // objects; replaces the value of an existing key; returns *this
  const Json* find(std::string_view key) const;  // null if the key is missing or this is not an object
  const Json& at(std::string_view key) const;    // throws Error(invalid_argument) if the key is missing
  std::size_t size() const;                      // number of items or members

  // indent 0 writes one line. With a larger indent, arrays of numbers and small objects still take one line each.
  std::string dump(int indent = 0) const;

  // Parses the whole text, which must be one value within the limits above. Throws Error(invalid_argument) with the
  // byte position of the error.
  static Json parse(std::string_view text);

  // Parses the value that begins at `position`, then moves `position` past the value and the white space after it.
  // Throws as parse() does.
  static Json parse_next(std::string_view text, std::size_t& position);

 private:
  // Holds a T on the heap; holds null for an empty T. Copies are deep. Keeps Json at 16 bytes.
  template <typename T>
  class Boxed {
   public:
    explicit Boxed(T value);
    Boxed(const Boxed& other);
    Boxed(Boxed&& other) noexcept = default;
    Boxed& operator=(Boxed other) noexcept {
      held_.swap(other.held_);
      return *this;
    }
    ~Boxed() = default;

    const T& get() const;
    T& writable();

   private:
    std::unique_ptr<T> held_;
  };

  void dump_to(std::string& out, int indent, int depth) const;
  bool fits_one_line() const;

  std::variant<std::monostate, bool, std::int64_t, double, Boxed<std::string>, Boxed<Array>, Boxed<Object>> value_;
};

template <typename T>
Json::Boxed<T>::Boxed(T value) : held_(value.empty() ? nullptr : std::make_unique<T>(std::move(value))) {}

template <typename T>
Json::Boxed<T>::Boxed(const Boxed& other) : held_(other.held_ ? std::make_unique<T>(*other.held_) : nullptr) {}

template <typename T>
const T& Json::Boxed<T>::get() const {
  static const T empty;
  return held_ ? *held_ : empty;
}

template <typename T>
T& Json::Boxed<T>::writable() {
  if (!held_) held_ = std::make_unique<T>();
  return *held_;
}

static_assert(sizeof(Json) == 16);

}  // namespace strobe
