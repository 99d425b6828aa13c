// Applies one random change to a sequence of JSON documents: replaces, removes or repeats a value, or renames a key.
// Unless a key occurs twice, the result passes the parser and reaches the code that reads the values. Fuzz harnesses of
// JSON formats use it in addition to libFuzzer's own mutations. The replay tests use it without libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "strobe/error.h"

namespace strobe::test {

class JsonMutator {
 public:
  explicit JsonMutator(unsigned seed) : random_(seed) {}

  // Returns the documents, one per line, with one value changed and sometimes one document repeated. Text that is not
  // JSON is returned unchanged.
  std::string mutated(std::string_view text) {
    std::vector<Json> documents;
    try {
      for (std::size_t at = 0; at < text.size();) documents.push_back(Json::parse_next(text, at));
    } catch (const Error&) {
      return std::string(text);
    }
    if (documents.empty()) return std::string(text);
    const std::size_t chosen = below(documents.size());
    donor_ = &documents[below(documents.size())];
    documents[chosen] = with_change(documents[chosen]);
    if (below(16) == 0) documents.push_back(documents[below(documents.size())]);
    std::string out;
    for (const Json& document : documents) out += document.dump() + (documents.size() > 1 ? "\n" : "");
    return out;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_()) % limit; }

  template <class List>
  const auto& pick(const List& list) {
    return *std::next(std::begin(list), static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

  static std::size_t count(const Json& value) {
    std::size_t nodes = 1;
    if (value.is_array()) {
      for (const Json& item : value.as_array()) nodes += count(item);
    } else if (value.is_object()) {
      for (const auto& [key, member] : value.as_object()) nodes += count(member);
    }
    return nodes;
  }

  static const Json& node(const Json& value, std::size_t& index) {
    if (index == 0) return value;
    --index;
    const auto inside = [&](const Json& child) -> const Json* {
      const std::size_t nodes = count(child);
      if (index < nodes) return &node(child, index);
      index -= nodes;
      return nullptr;
    };
    if (value.is_array()) {
      for (const Json& item : value.as_array()) {
        if (const Json* found = inside(item)) return *found;
      }
    } else if (value.is_object()) {
      for (const auto& [key, member] : value.as_object()) {
        if (const Json* found = inside(member)) return *found;
      }
    }
    return value;
  }

  Json with_change(const Json& root) {
    std::size_t index = below(count(root));
    return rebuilt(root, index);
  }

  // Returns a copy in which the node with this index, counted in the order of the text, is changed.
  Json rebuilt(const Json& value, std::size_t& index) {
    if (index-- == 0) return changed(value);
    if (value.is_array()) {
      Json::Array items;
      for (const Json& item : value.as_array()) items.push_back(copied(item, index));
      return Json::array(std::move(items));
    }
    Json::Object members;
    for (const auto& [key, member] : value.as_object()) members.emplace_back(key, copied(member, index));
    return Json::object(std::move(members));
  }

  Json copied(const Json& value, std::size_t& index) {
    const std::size_t nodes = count(value);
    if (index < nodes) {
      Json copy = rebuilt(value, index);
      index = std::numeric_limits<std::size_t>::max() / 2;  // matches no later node
      return copy;
    }
    index -= nodes;
    return value;
  }

  Json changed(const Json& value) {
    switch (below(8)) {
      case 0: return any_value();
      case 1: {
        std::size_t index = below(count(*donor_));
        return node(*donor_, index);
      }
      default: break;
    }
    if (value.is_object()) return changed_object(value.as_object());
    if (value.is_array()) return changed_array(value.as_array());
    if (value.is_string()) return changed_string(value.as_string());
    if (value.is_number()) return changed_number(value);
    return any_value();
  }

  Json changed_object(Json::Object members) {
    if (members.empty()) return any_value();
    const auto place = std::next(members.begin(), static_cast<std::ptrdiff_t>(below(members.size())));
    switch (below(4)) {
      case 0: members.erase(place); break;
      case 1: place->first = changed_string(place->first).as_string(); break;
      case 2: members.push_back(*place); break;
      default: place->second = any_value();
    }
    return Json::object(std::move(members));
  }

  Json changed_array(Json::Array items) {
    if (items.empty()) return Json::array({any_value()});
    const auto place = std::next(items.begin(), static_cast<std::ptrdiff_t>(below(items.size())));
    switch (below(4)) {
      case 0: items.erase(place); break;
      case 1: items.push_back(Json(*place)); break;
      case 2: items.clear(); break;
      default: *place = any_value();
    }
    return Json::array(std::move(items));
  }

  Json changed_string(std::string text) {
    static constexpr const char* kPieces[] = {"",
                                              "=1+1",
                                              "@user",
                                              "<script>",
                                              "]]>",
                                              "|",
                                              "![a](http://b)",
                                              "`",
                                              "\x1b[31m",
                                              "\n",
                                              "\r",
                                              "\xc2\x85",
                                              "-",
                                              "../",
                                              "/",
                                              "cuda",
                                              "cpu",
                                              ",",
                                              "\"",
                                              "\x01",
                                              "\u202e",
                                              "\xf0\x9f\x98\x80",
                                              "&amp;",
                                              "%s",
                                              "nan",
                                              "step-1",
                                              "fp16",
                                              "*",
                                              "_",
                                              "\\"};
    switch (below(4)) {
      case 0: return pick(kPieces);
      case 1: return text.substr(0, below(text.size() + 1));
      case 2: return text + std::string(below(200), 'x');
      default: return text.insert(below(text.size() + 1), pick(kPieces));
    }
  }

  Json changed_number(const Json& value) {
    if (below(2) == 0) return any_number();
    if (!value.is_integer()) return value.as_number() * (below(2) == 0 ? 2 : 0.5);
    const auto bits = static_cast<std::uint64_t>(value.as_integer());
    return static_cast<std::int64_t>(below(2) == 0 ? bits + 1 - 2 * below(2) : bits << below(8));
  }

  Json any_number() {
    static constexpr std::int64_t kIntegers[] = {0,
                                                 1,
                                                 2,
                                                 -1,
                                                 64,
                                                 255,
                                                 1 << 20,
                                                 std::int64_t{1} << 31,
                                                 std::int64_t{1} << 32,
                                                 (std::int64_t{1} << 53) + 1,
                                                 std::int64_t{1} << 62,
                                                 std::numeric_limits<std::int64_t>::max(),
                                                 std::numeric_limits<std::int64_t>::min()};
    static constexpr double kNumbers[] = {0.0,    0.5, -0.0, -1.5,  1e-12,   1e-320,
                                          5e-324, 1e9, 1e20, 1e306, 1.7e308, -1e308};
    if (below(2) == 0) return pick(kIntegers);
    return pick(kNumbers);
  }

  Json any_value() {
    switch (below(7)) {
      case 0: return nullptr;
      case 1: return below(2) == 0;
      case 2: return Json::array();
      case 3: return Json::object();
      case 4: return changed_string("");
      default: return any_number();
    }
  }

  std::mt19937 random_;
  const Json* donor_ = nullptr;
};

inline std::string mutated_json(std::string_view text, unsigned seed) { return JsonMutator(seed).mutated(text); }

// For LLVMFuzzerCustomMutator: changes `data` in place and returns its new size. Returns 0 if the result exceeds `most`
// bytes.
inline std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const std::string text = mutated_json({reinterpret_cast<const char*>(data), size}, seed);
  if (text.size() > most) return 0;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace strobe::test
