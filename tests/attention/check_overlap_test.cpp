// Tests overlap() of two strided tensors, compared with sets of their bytes.
#include "attention/checks.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace strobe {
namespace {

using Sizes = std::array<std::int64_t, 4>;

ConstView view_at(std::uintptr_t address, DType dtype, const Sizes& shape, const Sizes& stride) {
  return {reinterpret_cast<const void*>(address), dtype, shape, stride};
}

std::set<std::uintptr_t> bytes_of(const ConstView& view) {
  std::set<std::uintptr_t> bytes;
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  for (std::int64_t b = 0; b < view.shape[0]; ++b)
    for (std::int64_t h = 0; h < view.shape[1]; ++h)
      for (std::int64_t i = 0; i < view.shape[2]; ++i)
        for (std::int64_t c = 0; c < view.shape[3]; ++c)
          for (std::int64_t byte = 0; byte < size; ++byte) {
            const std::int64_t element =
                b * view.stride[0] + h * view.stride[1] + i * view.stride[2] + c * view.stride[3];
            bytes.insert(reinterpret_cast<std::uintptr_t>(view.data) +
                         static_cast<std::uintptr_t>(element * size + byte));
          }
  return bytes;
}

bool share_a_byte(const ConstView& a, const ConstView& b) {
  const std::set<std::uintptr_t> bytes = bytes_of(a);
  for (const std::uintptr_t byte : bytes_of(b)) {
    if (bytes.contains(byte)) return true;
  }
  return false;
}

TEST(CheckOverlap, AgreesWithSetsOfBytes) {
  std::mt19937 random(35);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int overlapping = 0, apart = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<ConstView> views;
    for (int i = 0; i < 2; ++i) {
      Sizes shape, stride;
      for (auto& size : shape) size = pick(1, 3);
      for (auto& step : stride) step = pick(-40, 40);
      stride[3] = pick(0, 4) == 0 ? 0 : 1;
      views.push_back(view_at(static_cast<std::uintptr_t>(4096 + 2 * pick(0, 160)),
                              pick(0, 1) != 0 ? DType::fp32 : DType::fp16, shape, stride));
    }
    const bool expected = share_a_byte(views[0], views[1]);
    ++(expected ? overlapping : apart);
    EXPECT_EQ(overlap({"a", views[0]}, {"b", views[1]}), expected) << "round " << round;
    EXPECT_EQ(overlap({"b", views[1]}, {"a", views[0]}), expected) << "round " << round;
  }
  EXPECT_GT(overlapping, 500);
  EXPECT_GT(apart, 500);
}

// Q, K, V and O as slices of one tensor [B, S, 4, H, D] of a large model: neighbouring slices do not overlap.
TEST(CheckOverlap, InterleavedTensorsDoNotOverlap) {
  constexpr std::int64_t b = 8, s = 4096, h = 32, d = 128;
  const Sizes shape{b, h, s, d}, stride{s * 4 * h * d, d, 4 * h * d, 1};
  const auto slice = [&](std::uintptr_t which, std::uintptr_t skew = 0) {
    return view_at((std::uintptr_t{1} << 40) + which * h * d * 2 + skew, DType::bf16, shape, stride);
  };
  for (std::uintptr_t i = 0; i < 4; ++i) {
    for (std::uintptr_t j = 0; j < 4; ++j) {
      EXPECT_EQ(overlap({"a", slice(i)}, {"b", slice(j)}), i == j);
      EXPECT_TRUE(overlap({"a", slice(i)}, {"b", slice(i, 2 * d - 2)}));
    }
    EXPECT_TRUE(overlap({"a", slice(i)}, {"b", slice((i + 3) % 4, 2)}));  // one element into the next slice
  }
  // Heads of Q and K alternate: [B, S, H, 2, D].
  const Sizes pairs{s * 2 * h * d, 2 * d, 2 * h * d, 1};
  const ConstView even = view_at(1 << 20, DType::bf16, shape, pairs);
  const ConstView odd = view_at((1 << 20) + 2 * d, DType::bf16, shape, pairs);
  EXPECT_FALSE(overlap({"a", even}, {"b", odd}));
  // A transposed view [B, H, S, D] over the same memory overlaps.
  EXPECT_TRUE(overlap({"a", even}, {"b", view_at((1 << 20) + 4, DType::bf16, shape, {h * s * d, s * d, d, 1})}));
}

TEST(CheckOverlap, ArraysAndEmptyTensors) {
  const float values[8] = {};
  EXPECT_TRUE(overlap({"a", values, 4}, {"b", values + 3, 4}));
  EXPECT_FALSE(overlap({"a", values, 4}, {"b", values + 4, 4}));
  EXPECT_FALSE(overlap({"a", values, 0}, {"b", values, 4}));
  EXPECT_FALSE(overlap({"a", view_at(4096, DType::fp32, {2, 0, 3, 4}, {0, 0, 0, 1})}, {"b", values, 4}));
  const std::int64_t lengths[2] = {};
  EXPECT_TRUE(overlap({"a", view_index(lengths, 2)}, {"b", static_cast<const void*>(lengths + 1), 1}));
}

}  // namespace
}  // namespace strobe
