// Tests that the caller's floating-point mode has no effect on results and is restored after each call.
#include "support/float_mode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "strobe/attention.h"

namespace strobe {
namespace {

constexpr std::int64_t kB = 1, kH = 4, kS = 96, kD = 32, kCount = kB * kH * kS * kD;
constexpr std::array<std::int64_t, 4> kShape{kB, kH, kS, kD};

struct Tensors {
  std::vector<float> values = std::vector<float>(8 * kCount), lse = std::vector<float>(kB * kH * kS);

  // Every third element is subnormal, and so are all elements of the third tensor.
  Tensors() {
    for (std::int64_t i = 0; i < 4 * kCount; ++i) {
      const float value = static_cast<float>(i * 2654435761u % 2001u) * 1e-3f - 1;
      at(0)[i] = value * (i % 3 == 0 || i / kCount == 2 ? 1e-39f : 1.0f);
    }
  }
  float* at(int which) { return values.data() + which * kCount; }
  View view(int which) { return view_bhsd<void>(at(which), DType::fp32, kShape); }

  void run(const Execution& execution) {
    const Attention attention{.q = view(0), .k = view(1), .v = view(2), .causal = true};
    forward(attention, {.o = view(4), .lse = lse.data()}, execution);
    backward(attention, {.o = view(4), .lse = lse.data(), .d_o = view(3)},
             {.dq = view(5), .dk = view(6), .dv = view(7)}, execution);
  }
  bool same_bits(const Tensors& other) const {
    return std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0 &&
           std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(float)) == 0;
  }
};

class FloatModeOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, FloatModeOf, testing::Values("flash2", "frugal", "standard", "reference"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(FloatModeOf, CallersModeDoesNotChangeResults) {
  Tensors expected;
  expected.run({.kernel = GetParam(), .threads = 1});
  for (const FloatControl foreign : test::foreign_modes()) {
    Tensors one;
    int different = 0;
    for (int round = 0; round < 40; ++round) {
      const test::ForeignMode caller(foreign);
      one.run({.kernel = GetParam(), .threads = round == 0 ? 1 : 4});
      EXPECT_EQ(float_control(), foreign);
      different += one.same_bits(expected) ? 0 : 1;
    }
    EXPECT_EQ(different, 0) << "of 40 runs";
  }
}

TEST(FloatMode, IsRestoredAfterAnError) {
  for (const FloatControl foreign : test::foreign_modes()) {
    const test::ForeignMode caller(foreign);
    EXPECT_THROW(forward({}, {}), Error);
    EXPECT_EQ(float_control(), foreign);
    EXPECT_THROW(workspace_bytes({}, Pass::forward), Error);
    EXPECT_EQ(float_control(), foreign);
  }
}

}  // namespace
}  // namespace strobe
