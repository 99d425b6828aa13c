// Tests hopper's fp32 backward on a GPU with the exactness rule (support/compare.h): on the grid's cases that it
// supports, and on each of its features, with and without ordered accumulation of dQ. Hopper splits fp32 elements into
// two fp16 floats (2xFP16). If magnitudes are too far apart, flash2 runs with three bf16 floats (3xBF16) instead.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/compare.h"
#include "support/hopper_fp32.h"
#include "support/selection.h"
#include "support/spread.h"

namespace strobe::test {
namespace {

constexpr GpuRunOptions kInOrder{.kernel = "hopper"}, kAnyOrder{.kernel = "hopper", .deterministic = false};

using GpuHopperFp32Backward = HopperFp32Test<Pass::backward>;

TEST_F(GpuHopperFp32Backward, Grid) {
  const auto [cases, taken] = HopperFp32(Pass::backward, {kInOrder, kAnyOrder}).examine_grid();
  RecordProperty("cases", taken);
  if (cases > 100) {
    EXPECT_GT(taken, 1);  // most cases have options, few rows, or rows that are not multiples of 16 bytes
  }
}

Case backward_case(std::int64_t d, std::int64_t sq, std::int64_t sk) {
  return case_from("h4/2 s{}x{} d{} seed=71", sq, sk, d);
}

// Returns cases with several row tiles and key tiles, of which the last are partial, and more tiles than stages.
std::vector<Case> backward_shapes() {
  std::vector<Case> all;
  for (const std::int64_t d : {64, 128}) {
    Case full = backward_case(d, 300, 500), causal = full, tall = backward_case(d, 500, 300),
         square = backward_case(d, 420, 420);
    Case window = square, behind = square, packed = full, padded = full, many = square;
    causal.causal = true, causal.alignment = Alignment::bottom_right;
    tall.causal = true, tall.alignment = Alignment::bottom_right;  // some rows have no keys
    square.causal = true;
    window.window = {70, 33};
    behind.window = {50, -1};
    packed.batch = 4, packed.lengths = Lengths::packed, packed.causal = true;
    packed.alignment = Alignment::bottom_right;
    packed.lengths_q = {300, 0, 3, 77}, packed.lengths_k = {500, 31, 40, 128};
    padded.batch = 4, padded.lengths = Lengths::both;
    padded.lengths_q = {150, 64, 0, 20}, padded.lengths_k = {129, 500, 70, 0};
    many.heads_q = 280, many.sq = 40, many.sk = 200, many.causal = true, many.alignment = Alignment::bottom_right;
    Case narrow = backward_case(d - 24, 200, 300), uneven = narrow, strided = square;
    uneven.dv = d / 2;
    strided.layout_q = strided.layout_k = strided.layout_v = strided.layout_out = Layout::bshd;
    Case large = full;
    large.values = Values::large;
    all.insert(all.end(),
               {full, causal, tall, square, window, behind, packed, padded, many, narrow, uneven, strided, large});
  }
  return all;
}

TEST_F(GpuHopperFp32Backward, EveryFeature) {
  HopperFp32(Pass::backward, {kInOrder, kAnyOrder}).examine_all(backward_shapes());
}

// Sums of one sign reveal truncation by tensor cores.
TEST_F(GpuHopperFp32Backward, SumsOfOneSignDoNotDrift) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    for (const std::int64_t size : {256, 2048}) {
      Case c = backward_case(d, size, size);
      c.heads_q = c.heads_kv = 1;
      SCOPED_TRACE(describe(c));
      Data data(c);
      change_inputs(data, [](int, std::int64_t, float value) { return std::abs(value); });
      GpuCase on_gpu(data, lane);
      const Results standard = on_gpu.run({.kernel = "standard"}).results;
      EXPECT_EQ(exactness(c, oracle(data), standard, on_gpu.run(kInOrder).results), "");
    }
  }
}

// 2xFP16 is exact enough for magnitude ratios up to 2^16. Larger ratios need 3xBF16.
TEST_F(GpuHopperFp32Backward, RowsOfAllMagnitudes) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    for (const bool causal : {false, true}) {
      Case c = backward_case(d, 200, 300);
      c.causal = causal;
      if (causal) c.alignment = Alignment::bottom_right;
      for (const auto& [name, kind] : kSpreads) {
        for (const int powers : {12, 15, 17, 36}) {
          if (kind == Spread::all && powers != 12) continue;
          SCOPED_TRACE(testing::Message() << describe(c) << ", " << name << " by 2^" << powers);
          Data data(c);
          spread(data, kind, powers);
          GpuCase on_gpu(data, lane);
          const Results standard = on_gpu.run({.kernel = "standard"}).results;
          EXPECT_EQ(exactness(c, oracle(data), standard, on_gpu.run(kInOrder).results), "");
        }
      }
    }
  }
}

// Returns dK of the first of two sequences, after one row of `tensor` in the second is multiplied by the factor. The
// last bits of dK show whether 2xFP16 or 3xBF16 ran.
std::vector<double> dk_of_first(GpuLane& lane, std::int64_t d, Tensor Data::*tensor, float factor) {
  Case c = backward_case(d, 200, 300);
  c.batch = 2;
  Data data(c);
  Tensor& changed = data.*tensor;
  for (std::int64_t e = 0; e < d; ++e) changed.set(1, 1, 37, e, changed.at(1, 1, 37, e) * factor);
  data.remember();
  std::vector<double> dk = GpuCase(data, lane).run(kInOrder).results.dk;
  dk.resize(dk.size() / 2);
  return dk;
}

// Rows of K or V with a very different magnitude select 3xBF16. Zeros and non-finite values have no magnitude, so they
// do not select 3xBF16.
TEST_F(GpuHopperFp32Backward, OrdinaryRowsUse2xFp16) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    const std::vector<double> ordinary = dk_of_first(lane, d, &Data::k, 1);
    for (const float factor : {0.0f, 0x1p-10f, 2.0f, std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(ordinary, dk_of_first(lane, d, &Data::k, factor)) << d << ", " << factor;
    }
    EXPECT_NE(ordinary, dk_of_first(lane, d, &Data::k, 0x1p-20f)) << d;
    for (const float factor : {0x1p-20f, 0x1p20f}) {
      EXPECT_NE(ordinary, dk_of_first(lane, d, &Data::v, factor)) << d << ", " << factor;
    }
  }
}

// The absolute error of a score is the relative error of its probability, so rows with a large LSE use 3xBF16.
TEST_F(GpuHopperFp32Backward, LargeScoresUse3xBf16) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    const std::vector<double> ordinary = dk_of_first(lane, d, &Data::q, 1);
    EXPECT_EQ(ordinary, dk_of_first(lane, d, &Data::q, 2)) << d;
    EXPECT_NE(ordinary, dk_of_first(lane, d, &Data::q, 60)) << d;
  }
}

// Keys and values that the mask hides from all rows must not change a bit of the results.
TEST_F(GpuHopperFp32Backward, UnusedRowsHaveNoEffect) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    Case c = backward_case(d, 100, 300);
    c.causal = true, c.alignment = Alignment::top_left;  // keys from 100 on are unused
    const Data ordinary(c);
    const Results expected = GpuCase(ordinary, lane).run(kInOrder).results;
    for (const float unused : {0.f, 1e-30f, 1e30f}) {
      Data data(c);
      change_inputs(data, [&](int tensor, std::int64_t row, float value) {
        return (tensor == 1 || tensor == 2) && row >= 100 ? unused : value;
      });
      EXPECT_EQ(first_difference(expected, GpuCase(data, lane).run(kInOrder).results), "") << d << ": " << unused;
    }
  }
}

TEST_F(GpuHopperFp32Backward, RepeatsBitByBit) {
  const auto repeats = static_cast<int>(number_from("STROBE_TEST_REPEATS", 250));
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    Case full = backward_case(d, 700, 700), causal = full, window = full;
    causal.causal = true, causal.batch = 3;
    window.window = {100, 60};
    for (const Case& c : {full, causal, window}) {
      const Data data(c);
      GpuCase on_gpu(data, lane);
      const Results first = on_gpu.run(kInOrder).results;
      for (int i = 1; i < repeats; ++i) {
        ASSERT_EQ(first_difference(first, on_gpu.run(kInOrder).results), "") << describe(c) << ", repetition " << i;
      }
    }
  }
}

}  // namespace
}  // namespace strobe::test
