// Value lists and their cartesian product.
#include "bench/sweep/axes.h"

#include <algorithm>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::bench {
namespace {

constexpr std::size_t kMaxCombinations = 100000;

std::vector<std::string> items_of(const std::string& flag, std::string_view value) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    std::string item(value.substr(begin, end - begin));
    if (item.empty()) {
      fail(ErrorCode::invalid_argument, "--{} {}: an empty value in the list", printable(flag), printable(value));
    }
    if (std::find(items.begin(), items.end(), item) != items.end()) {
      fail(ErrorCode::invalid_argument, "--{} {}: {} is there twice", printable(flag), printable(value),
           printable(item));
    }
    items.push_back(std::move(item));
    begin = end + 1;
  }
  return items;
}

}  // namespace

Axis make_axis(std::string flag, std::string_view value) {
  if (value.empty()) return {std::move(flag), {"on"}};
  if (flag == "impl" || flag == "lengths") return {std::move(flag), {std::string(value)}};
  if (flag == "causal" && value == "both") return {std::move(flag), {"off", "on"}};
  std::vector<std::string> items = items_of(flag, value);
  return {std::move(flag), std::move(items)};
}

void set_axis(std::vector<Axis>& axes, Axis axis) {
  for (Axis& known : axes) {
    if (known.flag != axis.flag) continue;
    known = std::move(axis);
    return;
  }
  axes.push_back(std::move(axis));
}

std::vector<Combination> product_of(const std::vector<Axis>& axes) {
  std::size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.values.size();  // bounded by the length of a command line
    if (count > kMaxCombinations) {
      fail(ErrorCode::invalid_argument, "sweep: more than {} combinations; valid: fewer or shorter lists",
           kMaxCombinations);
    }
  }
  std::vector<Combination> all;
  all.reserve(count);
  for (std::size_t number = 0; number < count; ++number) {
    Combination one(axes.size());
    std::size_t rest = number;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const std::vector<std::string>& values = axes[i].values;
      one[i] = {axes[i].flag, values[rest % values.size()]};
      rest /= values.size();
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace strobe::bench
