// Tests fp32 on tensor cores. Kernels split each element into 16-bit floats, which are scaled by one factor per group
// of rows. Sums of one sign reveal accumulators that truncate. A very large, small or non-finite row must not change
// the accuracy of the other rows of its group. Also tests TF32, which rounds elements by design.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/compare.h"
#include "support/gpu.h"
#include "support/spread.h"

namespace strobe::test {
namespace {

class GpuFp32 : public GpuTest {};

Case long_case(std::int64_t rows, std::int64_t keys, std::int64_t dim) {
  return case_from("h2 s{}x{} d{}", rows, keys, dim);
}

struct Relative {
  double max, mean;
};

Relative relative_error(const std::vector<double>& reference, const std::vector<double>& values) {
  const Deviation found = deviation(reference, values, DType::fp32);
  EXPECT_EQ(found.mismatch, "");
  return {found.max / found.reference_max, found.mean / found.reference_mean};
}

TEST_F(GpuFp32, SumsOfOneSignDoNotDrift) {
  const double u = unit_roundoff(DType::fp32);
  GpuLane lane;
  for (const std::int64_t dim : {32, 64, 128}) {
    for (const bool many_keys : {true, false}) {
      const Case c = many_keys ? long_case(64, 4096, dim) : long_case(4096, 64, dim);
      SCOPED_TRACE(describe(c));
      Data data(c);
      change_inputs(data, [](int, std::int64_t, float value) { return std::abs(value); });
      const Results reference = oracle(data);
      GpuCase on_gpu(data, lane);
      const Results standard = on_gpu.run({.kernel = "standard"}).results;
      const Outcome flash2 = on_gpu.run({.kernel = "flash2"});
      EXPECT_EQ(flash2.complaint, "");
      EXPECT_EQ(exactness(c, reference, standard, flash2.results), "");
      EXPECT_LE(relative_error(reference.o, flash2.results.o).max, 1e-5);
      for (const auto& [name, member] : kOutputs) {
        if (member == &Results::dq || (reference.*member).empty()) continue;  // terms of dQ have both signs and cancel
        EXPECT_LE(relative_error(reference.*member, flash2.results.*member).mean, 8 * u) << name;
      }
    }
  }
}

TEST_F(GpuFp32, RowsOfAllMagnitudes) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64, 128}) {
    const Case c = long_case(200, 300, dim);
    SCOPED_TRACE(describe(c));
    Data data(c);
    // Scores remain of the order of 1: Q is scaled down as much as K is scaled up.
    change_inputs(data, [](int tensor, std::int64_t row, float value) {
      const int spread = static_cast<int>(row * 7 % 25) - 12;
      return std::ldexp(value, tensor == 0 ? -40 : tensor == 1 ? 40 : spread);
    });
    const Results reference = oracle(data);
    GpuCase on_gpu(data, lane);
    const Results standard = on_gpu.run({.kernel = "standard"}).results;
    const Outcome flash2 = on_gpu.run({.kernel = "flash2"});
    EXPECT_EQ(flash2.complaint, "");
    EXPECT_EQ(exactness(c, reference, standard, flash2.results), "");
  }
}

// Expects the values at which spoils(index) is true to be non-finite, and the others to be unchanged to within 1e-5.
template <class Spoils>
void expect_spoiled(const std::vector<double>& plain, const std::vector<double>& values, Spoils&& spoils) {
  ASSERT_EQ(values.size(), plain.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (spoils(static_cast<std::int64_t>(i))) {
      ASSERT_FALSE(std::isfinite(values[i])) << i;
    } else {
      ASSERT_NEAR(values[i], plain[i], 1e-5) << i;
    }
  }
}

// Row 37 of Q or dO is infinite. In dQ, row 37 must be non-finite and all other rows unchanged to within 1e-5. Other
// outputs are not checked.
TEST_F(GpuFp32, OneNonFiniteRow) {
  constexpr std::int64_t kRow = 37;
  GpuLane lane;
  for (const std::int64_t dim : {32, 64, 128}) {
    for (const int spoiled : {0, 3}) {  // indices of change_inputs(): Q, dO
      const Case c = long_case(200, 300, dim);
      SCOPED_TRACE(describe(c));
      Data data(c);
      const std::vector<double> plain = GpuCase(data, lane).run({.kernel = "flash2"}).results.dq;
      change_inputs(data, [&](int tensor, std::int64_t row, float value) {
        return tensor == spoiled && row == kRow ? std::numeric_limits<float>::infinity() : value;
      });
      const std::vector<double> dq = GpuCase(data, lane).run({.kernel = "flash2"}).results.dq;
      expect_spoiled(plain, dq, [&](std::int64_t i) { return i / dim % c.sq == kRow; });
    }
  }
}

// The causal mask hides some keys from all rows, or all keys from some rows. Values of 1e30 in these keys and rows must
// not change a bit of the results.
TEST_F(GpuFp32, HugeValuesInUnusedRows) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64}) {
    for (const bool many_keys : {true, false}) {
      Case c = many_keys ? long_case(40, 96, dim) : long_case(96, 40, dim);
      c.causal = true;
      c.alignment = many_keys ? Alignment::top_left : Alignment::bottom_right;
      SCOPED_TRACE(describe(c));
      Data data(c);
      const Outcome plain = GpuCase(data, lane).run({.kernel = "flash2"});
      change_inputs(data, [&](int tensor, std::int64_t row, float value) {
        const bool is_key = tensor == 1 || tensor == 2;
        const bool unused = many_keys ? is_key && row >= 40 : !is_key && row < 56;
        return unused ? 1e30f : value;
      });
      const Outcome huge = GpuCase(data, lane).run({.kernel = "flash2"});
      EXPECT_EQ(first_difference(plain.results, huge.results), "");
    }
  }
}

TEST_F(GpuFp32, InfinityInVSpoilsOnlyItsColumn) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64}) {
    const Case c = long_case(64, 300, dim);
    SCOPED_TRACE(describe(c));
    Data data(c);
    const std::vector<double> plain = GpuCase(data, lane).run({.kernel = "flash2"}).results.o;
    data.v.set(0, 0, 40, 0, std::numeric_limits<float>::infinity());
    data.remember();
    const std::vector<double> o = GpuCase(data, lane).run({.kernel = "flash2"}).results.o;
    // The infinity is in the first head's column 0, so only that column of that head's rows is spoiled.
    expect_spoiled(plain, o, [&](std::int64_t i) { return i < 64 * dim && i % dim == 0; });
  }
}

TEST_F(GpuFp32, RowOfZerosWithATinyScale) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64}) {
    Case c = long_case(64, 300, dim);
    c.scale = 1e-8f;
    SCOPED_TRACE(describe(c));
    Data data(c);
    change_inputs(data, [](int tensor, std::int64_t row, float value) { return tensor == 0 && row == 5 ? 0 : value; });
    const Outcome flash2 = GpuCase(data, lane).run({.kernel = "flash2"});
    EXPECT_EQ(plausibility(c, oracle(data), flash2.results), "");
  }
}

TEST_F(GpuFp32, Tf32RoundsOnlyIfAllowed) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64, 128}) {
    const Case c = long_case(200, 300, dim);
    SCOPED_TRACE(describe(c));
    const Data data(c);
    const Results reference = oracle(data);
    GpuCase on_gpu(data, lane);
    const Results standard = on_gpu.run({.kernel = "standard", .tf32 = true}).results;
    const Outcome flash2 = on_gpu.run({.kernel = "flash2", .tf32 = true});
    EXPECT_EQ(flash2.complaint, "");
    EXPECT_LT(relative_error(reference.o, on_gpu.run({.kernel = "standard"}).results.o).max, 1e-5);
    EXPECT_GT(relative_error(reference.o, standard.o).max, 1e-5);
    Case rounded = c;
    rounded.dtype = DType::fp16;  // fp16 has as many mantissa bits as TF32
    EXPECT_EQ(exactness(rounded, reference, standard, flash2.results), "");
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const Verdict& verdict : explain(on_gpu.attention(), pass, {.device = Device::cuda, .tf32 = true})) {
        if (!verdict.refusal.empty()) continue;
        const bool says = verdict.configuration.find("tf32") != std::string::npos;
        EXPECT_EQ(says, verdict.kernel != "flash2" || dim <= 64) << verdict.kernel << ": " << verdict.configuration;
      }
    }
    if (dim <= 64) {
      EXPECT_GT(relative_error(reference.o, flash2.results.o).max, 1e-5);
      EXPECT_GT(relative_error(reference.dk, flash2.results.dk).max, 1e-5);
    } else {
      EXPECT_LT(relative_error(reference.o, flash2.results.o).max, 1e-5);
    }
  }
}

TEST_F(GpuFp32, Tf32NeedsFp32) {
  Case c = long_case(8, 8, 32);
  c.dtype = DType::bf16;
  const Data data(c);
  GpuLane lane;
  GpuCase on_gpu(data, lane);
  try {
    on_gpu.run({.kernel = "flash2", .tf32 = true});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "attention: tf32 is for fp32 on cuda; this is bf16 on cuda");
  }
}

}  // namespace
}  // namespace strobe::test
