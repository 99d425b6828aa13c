// Tests fp32 on tensor cores with rows of different magnitudes that share a scale. Two scaled fp16 floats per element
// (2xFP16) are fast; three bf16 floats (3xBF16) need no scale. The exactness rule (support/compare.h) must hold for any
// magnitudes, and ordinary data must use 2xFP16. Every call and every graph replay makes this choice again.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/compare.h"
#include "support/gpu.h"
#include "support/gpu_passes.h"
#include "support/spread.h"

namespace strobe::test {
namespace {

class GpuSpread : public GpuTest {};

Case case_of(std::int64_t dim) { return case_from("h4/2 s200x300 d{} seed=31", dim); }

std::vector<Case> spread_cases() {
  std::vector<Case> all;
  for (const std::int64_t dim : {16, 32, 64}) {
    Case c = case_of(dim);
    all.push_back(c);
    c.causal = true;
    c.alignment = Alignment::bottom_right;
    all.push_back(c);
  }
  Case packed = case_of(64);
  packed.dv = 24;
  packed.batch = 3;
  packed.lengths = Lengths::packed;
  packed.lengths_q = {200, 0, 77}, packed.lengths_k = {300, 40, 150};
  all.push_back(packed);
  return all;
}

// 2xFP16 computes the result for magnitude ratios below 2^16, 3xBF16 for larger ones. The rule must hold for both.
TEST_F(GpuSpread, KeepsTheExactnessRule) {
  GpuLane lane;
  for (const Case& c : spread_cases()) {
    for (const auto& [name, kind] : kSpreads) {
      for (const int powers : {12, 15, 17, 24, 36}) {
        if (kind == Spread::all && powers != 12) continue;
        SCOPED_TRACE(testing::Message() << describe(c) << ", " << name << " by 2^" << powers);
        Data data(c);
        spread(data, kind, powers);
        const Results reference = oracle(data);
        GpuCase on_gpu(data, lane);
        const Results standard = on_gpu.run({.kernel = "standard"}).results;
        for (const bool deterministic : {true, false}) {
          const Outcome flash2 = on_gpu.run({.kernel = "flash2", .deterministic = deterministic});
          EXPECT_EQ(flash2.complaint, "");
          EXPECT_EQ(exactness(c, reference, standard, flash2.results), "");
        }
      }
    }
  }
}

// The absolute error of a score is the relative error of its probability, so rows with a large LSE use 3xBF16. The rule
// must hold for them.
TEST_F(GpuSpread, LargeScoresKeepTheExactnessRule) {
  GpuLane lane;
  for (const Case& c : spread_cases()) {
    for (const float factor : {5.f, 6.f, 7.f, 9.f, 60.f}) {
      SCOPED_TRACE(testing::Message() << describe(c) << ", Q times " << factor);
      Data data(c);
      change_inputs(data, [&](int tensor, std::int64_t, float value) { return tensor == 0 ? value * factor : value; });
      GpuCase on_gpu(data, lane);
      const Results standard = on_gpu.run({.kernel = "standard"}).results;
      EXPECT_EQ(exactness(c, oracle(data), standard, on_gpu.run({.kernel = "flash2"}).results), "");
    }
  }
}

// TF32 keeps 11 significant bits of every element, however small. The outputs depend on the small rows, and errors must
// be at most 2 % of an output's largest value.
TEST_F(GpuSpread, Tf32KeepsSmallRows) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64}) {
    for (const Spread kind : {Spread::values, Spread::rows}) {
      const Case c = case_of(dim);
      Data data(c);
      spread(data, kind, 36);
      const Results reference = oracle(data),
                    tf32 = GpuCase(data, lane).run({.kernel = "flash2", .tf32 = true}).results;
      for (const auto& [name, member] : kOutputs) {
        if ((reference.*member).empty()) continue;
        const Deviation found = deviation(reference.*member, tf32.*member, DType::fp32);
        EXPECT_EQ(found.mismatch, "");
        EXPECT_LE(found.max, 0.02 * found.reference_max) << name << " of " << describe(c);
      }
    }
  }
}

// Rows that the mask hides do not affect the scales, so the bits of the results stay the same.
TEST_F(GpuSpread, UnusedRowsHaveNoEffect) {
  constexpr float kValues[] = {0, 1e-30f, 1e30f, std::numeric_limits<float>::infinity()};
  GpuLane lane;
  for (const std::int64_t dim : {32, 64}) {
    for (const bool many_keys : {true, false}) {
      Case c = case_of(dim);
      c.sq = many_keys ? 40 : 96, c.sk = many_keys ? 96 : 40;
      c.causal = true;
      c.alignment = many_keys ? Alignment::top_left : Alignment::bottom_right;
      SCOPED_TRACE(describe(c));
      Data data(c);
      const Outcome ordinary = GpuCase(data, lane).run({.kernel = "flash2"});
      for (const float unused_value : kValues) {
        if (many_keys && std::isinf(unused_value)) continue;  // an infinite key may affect rows of a partly masked tile
        change_inputs(data, [&](int tensor, std::int64_t row, float value) {
          const bool is_key = tensor == 1 || tensor == 2;
          const bool unused = many_keys ? is_key && row >= 40 : !is_key && row < 56;
          return unused ? unused_value : value;
        });
        EXPECT_EQ(first_difference(ordinary.results, GpuCase(data, lane).run({.kernel = "flash2"}).results), "")
            << unused_value;
      }
    }
  }
}

// Returns the results of sequence 0 of two.
Results of_first_sequence(const Results& results) {
  Results first;
  for (const auto& [name, member] : kOutputs) {
    const std::vector<double>& all = results.*member;
    (first.*member).assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  }
  return first;
}

// The last bits of the gradients show which kernels ran, because 3xBF16 and 2xFP16 round differently. A very small row
// of K in another sequence of the call selects 3xBF16, and so does a large one, which causes a large LSE. Otherwise
// 2xFP16 runs, also with zeros and non-finite values, which have no magnitude.
TEST_F(GpuSpread, OrdinaryRowsUse2xFp16) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64}) {
    Case c = case_of(dim);
    c.batch = 2;
    SCOPED_TRACE(describe(c));
    // Returns the results of the first sequence after row 37 of K in the second is multiplied by the factor.
    const auto results_with = [&](float factor) {
      Data data(c);
      for (std::int64_t e = 0; e < dim; ++e) data.k.set(1, 1, 37, e, data.k.at(1, 1, 37, e) * factor);
      data.remember();
      return of_first_sequence(GpuCase(data, lane).run({.kernel = "flash2"}).results);
    };
    const Results ordinary = results_with(1);
    for (const float factor : {0.0f, 0x1p-10f, 2.0f, std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(first_difference(ordinary, results_with(factor)), "") << factor;
    }
    for (const float factor : {0x1p-20f, 0x1p8f, 0x1p20f}) {
      const Results exact = results_with(factor);
      EXPECT_EQ(exact.o, ordinary.o);
      EXPECT_NE(exact.dk, ordinary.dk) << factor;
      EXPECT_EQ(plausibility(c, ordinary, exact), "") << factor;
    }
  }
}

TEST_F(GpuSpread, EveryGraphReplayChoosesBetween2xFp16And3xBf16) {
  GpuLane lane;
  for (const std::int64_t dim : {32, 64}) {
    for (const bool deterministic : {true, false}) {
      const Case c = case_of(dim);
      SCOPED_TRACE(describe(c));
      Data data(c), uneven(c);
      const Data ordinary(c);
      spread(uneven, Spread::values, 24);
      GpuCase on_gpu(data, lane);
      GpuPasses passes(on_gpu, lane, {.kernel = "flash2", .deterministic = deterministic});
      // Writes `values` to the GPU memory of `data`, then launches.
      const auto outputs_of = [&](const Data& values, const auto& launch) {
        for (Tensor Data::*const tensor : {&Data::q, &Data::k, &Data::v, &Data::d_o}) {
          for_each((data.*tensor).view.shape, [&](auto b, auto h, auto s, auto e) {
            (data.*tensor).set(b, h, s, e, (values.*tensor).at(b, h, s, e));
          });
          on_gpu.upload(data.*tensor);
        }
        passes.poison();
        launch();
        auto outputs = passes.outputs();
        if (!deterministic) outputs.erase("dQ");
        return outputs;
      };
      const auto call = [&] { passes.launch(); };
      const auto of_ordinary = outputs_of(ordinary, call), of_uneven = outputs_of(uneven, call);
      const GpuGraph graph(lane.stream, call);
      const auto replay = [&] { graph.launch(lane.stream); };
      for (int round = 0; round < 2; ++round) {
        EXPECT_TRUE(outputs_of(uneven, replay) == of_uneven) << round;
        EXPECT_TRUE(outputs_of(ordinary, replay) == of_ordinary) << round;
      }
    }
  }
}

TEST_F(GpuSpread, RepeatsBitByBit) {
  GpuLane lane;
  for (const Case& c : spread_cases()) {
    SCOPED_TRACE(describe(c));
    Data data(c);
    spread(data, Spread::all, 0);
    GpuCase on_gpu(data, lane);
    GpuPasses passes(on_gpu, lane, {.kernel = "flash2"});
    passes.poison();
    passes.launch();
    const auto first = passes.outputs();
    for (int i = 0; i < 20; ++i) {
      if (i % 5 == 0) passes.poison();
      passes.launch();
      ASSERT_TRUE(passes.outputs() == first) << i;
    }
  }
}

}  // namespace
}  // namespace strobe::test
