// A permutation that is computed, not stored: a Feistel network over the smallest even number of bits that holds every
// window, walked again while it leads to a number that is none. Fewer than four walks on average.
#include "lm/data/window_order.h"

#include <bit>

#include "core/philox.h"

namespace strobe::lm {

namespace {

constexpr std::uint32_t kRounds = 6;
constexpr std::uint32_t kOrderStream = 0x64617461;  // apart from the other uses of the seed

}  // namespace

WindowOrder::WindowOrder(std::uint64_t seed, std::int64_t windows)
    : seed_(seed), windows_(static_cast<std::uint64_t>(windows)), half_bits_((std::bit_width(windows_ - 1) + 1) / 2) {}

std::int64_t WindowOrder::at(std::int64_t position) const {
  const auto place = static_cast<std::uint64_t>(position);
  const auto epoch = static_cast<std::uint32_t>(place / windows_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t number = place % windows_;
  do {
    std::uint64_t left = number >> half_bits_, right = number & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed =
          left ^ philox({static_cast<std::uint32_t>(right), round, epoch, kOrderStream}, seed_)[0];
      left = right;
      right = mixed & mask;
    }
    number = left << half_bits_ | right;
  } while (number >= windows_);
  return static_cast<std::int64_t>(number);
}

}  // namespace strobe::lm
