// Implements difference_text() and nearest_text(), which compare the configuration of rows key by key.
#include "report/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/printable.h"

namespace strobe::report {
namespace {

constexpr std::size_t kMaxValues = 4;  // values printed per key
constexpr const char* kAbsent = "absent";

// Returns the members of the row's configuration and its implementation, by key.
std::map<std::string, std::string> members_of(const Result& result) {
  std::map<std::string, std::string> members(result.config.members.begin(), result.config.members.end());
  members["implementation"] = result.implementation;
  return members;
}

struct Difference {
  std::string key, here, there;
};

std::vector<Difference> differences(const Result& one, const Result& other) {
  const std::map<std::string, std::string> here = members_of(one), there = members_of(other);
  std::vector<Difference> found;
  for (const auto& [key, value] : here) {
    const auto same = there.find(key);
    const std::string text = same == there.end() ? kAbsent : same->second;
    if (text != value) found.push_back({key, value, text});
  }
  for (const auto& [key, value] : there) {
    if (!here.contains(key)) found.push_back({key, kAbsent, value});
  }
  return found;
}

std::vector<Difference> nearest_differences(const Result& one, std::span<const Result* const> others) {
  std::optional<std::vector<Difference>> least;
  for (const Result* const other : others) {
    std::vector<Difference> found = differences(one, *other);
    if (!least || found.size() < least->size()) least = std::move(found);
  }
  return *least;
}

using Values = std::map<std::string, std::set<std::string>>;  // values of each configuration key

Values values_of(std::span<const Result* const> results) {
  Values values;
  std::map<std::string, std::size_t> rows;  // rows that have the key
  for (const Result* const result : results) {
    for (const auto& [key, value] : members_of(*result)) {
      values[key].insert(value);
      ++rows[key];
    }
  }
  for (auto& [key, seen] : values) {
    if (rows[key] < results.size()) seen.insert(kAbsent);
  }
  return values;
}

std::string shown(const std::string& text) { return printable(text, 40); }

std::string shown(const std::set<std::string>& values) {
  std::vector<std::string> texts;
  for (const std::string& value : values) {
    if (texts.size() == kMaxValues) {
      texts.emplace_back("...");
      break;
    }
    texts.push_back(shown(value));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns the keys without a value common to both sides.
std::vector<std::string> disjoint_keys(Values& a, Values& b) {
  std::set<std::string> keys;
  for (const Values* const side : {&a, &b}) {
    for (const auto& [key, values] : *side) keys.insert(key);
  }
  std::vector<std::string> disjoint;
  for (const std::string& key : keys) {
    for (Values* const side : {&a, &b}) {
      if ((*side)[key].empty()) (*side)[key].insert(kAbsent);
    }
    const bool shares =
        std::any_of(a[key].begin(), a[key].end(), [&](const auto& one) { return b[key].contains(one); });
    if (!shares) disjoint.push_back(key);
  }
  return disjoint;
}

}  // namespace

std::string difference_text(std::span<const Result* const> a, std::span<const Result* const> b) {
  Values of_a = values_of(a), of_b = values_of(b);
  std::vector<std::string> parts;
  for (const std::string& key : disjoint_keys(of_a, of_b)) {
    parts.push_back(fmt::format("{}: {} in A, {} in B", shown(key), shown(of_a[key]), shown(of_b[key])));
  }
  if (!parts.empty()) return fmt::format("{}", fmt::join(parts, "; "));
  for (const Difference& one : nearest_differences(*a.front(), b)) {
    parts.push_back(fmt::format("{}: {} in A, {} in B", shown(one.key), shown(one.here), shown(one.there)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string nearest_text(const Result& one, std::span<const Result* const> others) {
  std::vector<std::string> parts;
  for (const Difference& each : nearest_differences(one, others)) {
    parts.push_back(fmt::format("{} {} instead of {}", shown(each.key), shown(each.there), shown(each.here)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace strobe::report
