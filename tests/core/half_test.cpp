// Compares fp16 with the compiler's half type, and bf16 with rounding in double: every 16-bit pattern, every midpoint,
// and a sample of all floats.
#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace strobe {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

#if defined(__aarch64__)
using CompilerHalf = __fp16;  // g++ 12 supports _Float16 in C++ only on x86
#else
using CompilerHalf = _Float16;
#endif

std::uint16_t compiler_fp16(float value) { return std::bit_cast<std::uint16_t>(static_cast<CompilerHalf>(value)); }
float compiler_float(std::uint16_t half) { return static_cast<float>(std::bit_cast<CompilerHalf>(half)); }

// Returns the nearest bf16, ties to even, computed arithmetically: 8 significant bits, subnormals down to 2^-133.
float nearest_bf16(float value) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 8, -133));
  const double rounded = std::nearbyint(static_cast<double>(value) / unit) * unit;  // only nearbyint() rounds
  if (std::abs(rounded) >= 0x1p128) return std::copysign(std::numeric_limits<float>::infinity(), value);
  return static_cast<float>(rounded);
}

// Returns true if the value is rounded correctly to both types. Uses no assertions, because it is called millions of
// times.
bool rounds(float value) {
  if (std::isnan(value)) {
    return std::isnan(fp16_to_float(float_to_fp16(value))) && std::isnan(bf16_to_float(float_to_bf16(value)));
  }
  return float_to_fp16(value) == compiler_fp16(value) &&
         bits_of(bf16_to_float(float_to_bf16(value))) == bits_of(nearest_bf16(value));
}

TEST(Half, ConvertsEveryFp16ToFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = fp16_to_float(half);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(compiler_float(half))) << std::hex << bits;
    } else {
      ASSERT_EQ(bits_of(value), bits_of(compiler_float(half))) << std::hex << bits;
      ASSERT_EQ(float_to_fp16(value), half) << std::hex << bits;
    }
  }
}

TEST(Half, ConvertsEveryBf16ToFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = bf16_to_float(half);
    ASSERT_EQ(bits_of(value), bits << 16);
    if (!std::isnan(value)) {
      ASSERT_EQ(float_to_bf16(value), half) << std::hex << bits;
    }
  }
}

// Rounding is monotone. If it is correct at each representable value, each midpoint and the floats next to these, it is
// correct everywhere.
TEST(Half, RoundsAroundEveryMidpoint) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const std::uint32_t near_fp16 = bits_of(fp16_to_float(half));
    const std::uint32_t near_bf16 = bits << 16;
    for (const std::uint32_t start : {near_fp16, near_bf16}) {
      for (const std::uint32_t middle : {0u, 0x1000u, 0x8000u}) {
        for (const std::uint32_t side : {~0u, 0u, 1u}) {
          const std::uint32_t around = start + middle + side;
          ASSERT_TRUE(rounds(std::bit_cast<float>(around))) << std::hex << around;
        }
      }
    }
  }
  // Midpoints of fp16's subnormals are odd multiples of 2^-25.
  for (int i = 0; i < 2048; ++i) {
    const float middle = static_cast<float>(2 * i + 1) * 0x1p-25f;
    for (const float value : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1.0f)}) {
      ASSERT_TRUE(rounds(value) && rounds(-value)) << std::hex << bits_of(value);
    }
  }
}

TEST(Half, RoundsASampleOfAllFloats) {
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 4099) {
    ASSERT_TRUE(rounds(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))) << std::hex << bits;
  }
}

TEST(Half, ElementsByType) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    float memory[2] = {};
    store_element(memory, dtype, 1, 1.2001953125f);
    EXPECT_EQ(load_element(memory, dtype, 1), round_to(dtype, 1.2001953125f)) << name_of(dtype);
    EXPECT_EQ(load_element(memory, dtype, 0), 0) << name_of(dtype);
  }
  EXPECT_EQ(round_to(DType::fp32, 1.2001953125f), 1.2001953125f);
  EXPECT_EQ(round_to(DType::fp16, 1.2001953125f), 1.2001953125f);
  EXPECT_EQ(round_to(DType::bf16, 1.2001953125f), 1.203125f);
}

}  // namespace
}  // namespace strobe
