// Overflow-checked products of sizes from files and flags.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace strobe {

// Returns the product of the factors, or nullopt if a partial product does not fit in std::int64_t.
constexpr std::optional<std::int64_t> checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

}  // namespace strobe
