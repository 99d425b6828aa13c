// fp32 on tensor cores, where its parts could show: sums that only grow, which accumulators that cut instead of
// rounding make drift, and rows of very different sizes, which share a tile of scaled parts.
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/gpu.h"

namespace strobe::test {
namespace {

class GpuFp32 : public GpuTest {};

Case long_case(std::int64_t rows, std::int64_t keys, std::int64_t dim) {
  Case c;
  c.heads_q = c.heads_kv = 2;
  c.sq = rows, c.sk = keys;
  c.d = c.dv = dim;
  return c;
}

// value = change(tensor, row, value) for all elements of q, k, v and dO (0, 1, 2, 3).
template <class Change>
void change_inputs(Data& data, Change&& change) {
  Tensor* const tensors[] = {&data.q, &data.k, &data.v, &data.d_o};
  for (int t = 0; t < 4; ++t) {
    for_each(tensors[t]->view.shape, [&](auto b, auto h, auto s, auto e) {
      tensors[t]->set(b, h, s, e, change(t, s, tensors[t]->at(b, h, s, e)));
    });
  }
  data.remember();
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

TEST_F(GpuFp32, RowsOfAllSizes) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64, 128}) {
    const Case c = long_case(200, 300, dim);
    SCOPED_TRACE(describe(c));
    Data data(c);
    // Scores stay of the order of 1: the rows of Q are as much smaller as those of K are larger.
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

}  // namespace
}  // namespace strobe::test
