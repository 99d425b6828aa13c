// Tests hopper's fp32 forward on a GPU, forced by name, with the exactness rule (support/compare.h): on the grid and on
// each of its features. Also tests rows of all magnitudes, integers that must be exact, and repeatability.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

constexpr GpuRunOptions kHopper{.kernel = "hopper", .forward_only = true};
constexpr GpuRunOptions kStandard{.kernel = "standard", .forward_only = true};

using GpuHopperFp32 = HopperFp32Test<Pass::forward>;

TEST_F(GpuHopperFp32, Grid) {
  const auto [cases, taken] = HopperFp32(Pass::forward, {kHopper}).examine_grid();
  RecordProperty("cases", taken);
  if (cases > 100) {
    EXPECT_GT(taken, 2);  // most cases have options, few rows, or rows that are not multiples of 16 bytes
  }
}

Case forward_case(std::int64_t d, std::int64_t sq, std::int64_t sk) {
  return case_from("h4/2 s{}x{} d{} seed=61", sq, sk, d);
}

// Returns cases with several row tiles and key tiles, of which the last are partial, and more tiles than stages.
std::vector<Case> forward_shapes() {
  std::vector<Case> all;
  for (const std::int64_t d : {64, 128}) {
    Case full = forward_case(d, 300, 700), causal = full, tall = forward_case(d, 700, 300),
         square = forward_case(d, 520, 520);
    Case window = square, packed = full, padded = full, sinks = square, many = square;
    causal.causal = true, causal.alignment = Alignment::bottom_right;
    tall.causal = true, tall.alignment = Alignment::bottom_right;  // some rows have no keys
    square.causal = true;
    window.window = {70, 33};
    packed.batch = 4, packed.lengths = Lengths::packed, packed.causal = true;
    packed.alignment = Alignment::bottom_right;
    packed.lengths_q = {300, 0, 3, 77}, packed.lengths_k = {700, 31, 40, 128};
    padded.batch = 3, padded.lengths = Lengths::both;
    padded.lengths_q = {150, 64, 0}, padded.lengths_k = {129, 700, 70};
    sinks.sinks = true;
    many.heads_q = 280, many.sq = 40, many.sk = 200, many.causal = true;
    many.alignment = Alignment::bottom_right;
    Case split = forward_case(d, 70, 4000), split_causal = split;
    split_causal.causal = true, split_causal.alignment = Alignment::bottom_right;
    Case narrow = forward_case(d - 24, 200, 300), uneven = narrow, strided = square;
    uneven.dv = d / 2;
    strided.layout_q = strided.layout_k = strided.layout_v = strided.layout_out = Layout::bshd;
    Case large = full;
    large.values = Values::large;
    all.insert(all.end(), {full, causal, tall, square, window, packed, padded, sinks, many, split, split_causal, narrow,
                           uneven, strided, large});
  }
  return all;
}

TEST_F(GpuHopperFp32, EveryFeature) { HopperFp32(Pass::forward, {kHopper}).examine_all(forward_shapes()); }

TEST_F(GpuHopperFp32, SumsOfOneSignDoNotDrift) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    Case c = forward_case(d, 128, 4096);
    SCOPED_TRACE(describe(c));
    Data data(c);
    change_inputs(data, [](int, std::int64_t, float value) { return std::abs(value); });
    const Results reference = oracle_forward(data);
    GpuCase on_gpu(data, lane);
    const Results hopper = on_gpu.run(kHopper).results;
    EXPECT_EQ(exactness(c, reference, on_gpu.run(kStandard).results, hopper), "");
    const Deviation o = deviation(reference.o, hopper.o, DType::fp32);
    EXPECT_LE(o.max, 1e-5 * o.reference_max);
    EXPECT_LE(o.mean, 8 * unit_roundoff(DType::fp32) * o.reference_mean);
  }
}

TEST_F(GpuHopperFp32, RowsOfAllMagnitudes) {
  GpuLane lane;
  for (const std::int64_t d : {32, 64, 128}) {
    for (const bool causal : {false, true}) {
      Case c = forward_case(d, 200, 300);
      c.causal = causal;
      if (causal) c.alignment = Alignment::bottom_right;
      for (const auto& [name, kind] : kSpreads) {
        for (const int powers : {9, 12, 17, 24, 36}) {
          if (kind == Spread::all && powers != 9) continue;
          SCOPED_TRACE(testing::Message() << describe(c) << ", " << name << " by 2^" << powers);
          Data data(c);
          spread(data, kind, powers);
          GpuCase on_gpu(data, lane);
          const Results standard = on_gpu.run(kStandard).results;
          EXPECT_EQ(exactness(c, oracle_forward(data), standard, on_gpu.run(kHopper).results), "");
        }
      }
    }
  }
}

// Keys and values that the mask hides from all rows do not affect the scales, so the results keep their bits.
TEST_F(GpuHopperFp32, UnusedRowsHaveNoEffect) {
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    Case c = forward_case(d, 100, 300);
    c.causal = true, c.alignment = Alignment::top_left;  // keys from 100 on are unused
    const Data ordinary(c);
    const Results expected = GpuCase(ordinary, lane).run(kHopper).results;
    for (const float unused : {0.f, 1e-30f, 1e30f, std::numeric_limits<float>::quiet_NaN()}) {
      Data data(c);
      change_inputs(data, [&](int tensor, std::int64_t row, float value) {
        return (tensor == 1 || tensor == 2) && row >= 100 ? unused : value;
      });
      EXPECT_EQ(first_difference(expected, GpuCase(data, lane).run(kHopper).results), "") << d << ": " << unused;
    }
  }
}

// An infinity in V makes its column of O non-finite, and a NaN in K all of O, in both query heads of the KV head. An
// infinity in Q makes its row non-finite. All other values stay within 1e-5.
TEST_F(GpuHopperFp32, NonFiniteValuesAffectOnlyRowsThatUseThem) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    const Case c = forward_case(d, 200, 300);
    const Data clean(c);
    const std::vector<double> plain = GpuCase(clean, lane).run(kHopper).results.o;
    const auto expect = [&](const Data& data, auto&& is_spoiled) {
      const std::vector<double> o = GpuCase(data, lane).run(kHopper).results.o;
      ASSERT_EQ(o.size(), plain.size());
      for (std::size_t i = 0; i < o.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        if (is_spoiled(at / d / c.sq, at / d % c.sq, at % d)) {
          ASSERT_FALSE(std::isfinite(o[i])) << i;
        } else {
          ASSERT_NEAR(o[i], plain[i], 1e-5) << i;
        }
      }
    };
    Data in_v(c), in_q(c), in_k(c);
    in_v.v.set(0, 0, 40, 5, kInfinite), in_v.remember();
    in_q.q.set(0, 1, 37, 3, kInfinite), in_q.remember();
    in_k.k.set(0, 1, 17, 2, std::numeric_limits<float>::quiet_NaN()), in_k.remember();
    expect(in_v, [](auto head, auto, auto column) { return head < 2 && column == 5; });
    expect(in_q, [](auto head, auto row, auto) { return head == 1 && row == 37; });
    expect(in_k, [](auto head, auto, auto) { return head >= 2; });
  }
}

// Compares O with the exact result for integers. With a scale of ln 2, unnormalized probabilities are powers of two and
// all sums are exact. Only the division by the sum and one multiplication round, as in the kernel. Returns the first
// difference, or an empty string.
std::string difference_to_exact(const Data& data, const std::vector<double>& o) {
  const Case& c = data.c;
  const std::vector<double> q = data.q.gather(), k = data.k.gather(), v = data.v.gather();
  const auto row_of = [](const std::vector<double>& all, std::int64_t row, std::int64_t columns) {
    return all.data() + row * columns;
  };
  for (std::int64_t h = 0; h < c.heads_q; ++h) {
    const std::int64_t first_key = h / (c.heads_q / c.heads_kv) * c.sk;
    for (std::int64_t i = 0; i < c.sq; ++i) {
      const std::int64_t diagonal = i + (c.alignment == Alignment::bottom_right ? c.sk - c.sq : 0);
      const std::int64_t right = c.causal ? 0 : c.window.right;
      double sum = 0;
      std::vector<double> row(static_cast<std::size_t>(c.dv));
      for (std::int64_t j = 0; j < c.sk; ++j) {
        if ((c.window.left >= 0 && j < diagonal - c.window.left) || (right >= 0 && j > diagonal + right)) continue;
        const double *left = row_of(q, h * c.sq + i, c.d), *key = row_of(k, first_key + j, c.d);
        double score = 0;
        for (std::int64_t e = 0; e < c.d; ++e) score += left[e] * key[e];
        const double weight = std::exp2(score), *value = row_of(v, first_key + j, c.dv);
        sum += weight;
        for (std::int64_t e = 0; e < c.dv; ++e) row[static_cast<std::size_t>(e)] += weight * value[e];
      }
      for (std::int64_t e = 0; e < c.dv; ++e) {
        const float inverse = 1 / static_cast<float>(sum);
        const float want = sum == 0 ? 0 : static_cast<float>(row[static_cast<std::size_t>(e)]) * inverse;
        const double is = *(row_of(o, h * c.sq + i, c.dv) + e);
        if (static_cast<float>(is) != want) return fmt::format("O[{}, {}, {}] is {}, not {}", h, i, e, is, want);
      }
    }
  }
  return {};
}

// Detects a register that is reused during an asynchronous matmul, a tile that is read too early, and an extra key.
TEST_F(GpuHopperFp32, WholeNumbersAreExact) {
  GpuLane lane;
  for (Case c : forward_shapes()) {
    if (c.sinks || c.lengths != Lengths::none || c.values != Values::normal) continue;
    c.sq = std::min<std::int64_t>(c.sq, 440), c.sk = std::min<std::int64_t>(c.sk, 440);  // otherwise keys are split
    c.scale = 0.6931472f;
    SCOPED_TRACE(describe(c));
    Data data(c);
    // Only 8 columns of Q and K are nonzero, so probabilities before normalization are from 2^-8 to 2^8.
    std::int64_t n = 0;
    change_inputs(data, [&](int tensor, std::int64_t, float value) -> float {
      const std::int64_t column = n++ % (tensor < 2 ? c.d : c.dv);
      if (tensor < 2 && column % (c.d / 8) != 0) return 0;
      return value > 0.5f ? 1.f : value < -0.5f ? -1.f : 0.f;
    });
    for (int repetition = 0; repetition < 5; ++repetition) {
      const Outcome outcome = GpuCase(data, lane).run(kHopper);
      EXPECT_EQ(outcome.complaint, "");
      ASSERT_EQ(difference_to_exact(data, outcome.results.o), "");
    }
  }
}

TEST_F(GpuHopperFp32, RepeatsBitByBit) {
  const auto repeats = static_cast<int>(number_from("STROBE_TEST_REPEATS", 250));
  GpuLane lane;
  for (const std::int64_t d : {64, 128}) {
    Case full = forward_case(d, 700, 700), causal = full, split = forward_case(d, 70, 3000);
    causal.causal = true, causal.batch = 3;
    for (const Case& c : {full, causal, split}) {
      const Data data(c);
      GpuCase on_gpu(data, lane);
      const Results first = on_gpu.run(kHopper).results;
      for (int i = 1; i < repeats; ++i) {
        ASSERT_EQ(first_difference(first, on_gpu.run(kHopper).results), "") << describe(c) << ", repetition " << i;
      }
    }
  }
}

}  // namespace
}  // namespace strobe::test
