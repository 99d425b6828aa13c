// NaN and infinities in the inputs reach the rows that use them, and nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/check.h"
#include "support/isa_scope.h"
#include "support/run.h"

namespace strobe::test {
namespace {

// One bad row of an input; what it may reach is what the oracle says, for every kernel that isolates rows.
class IsolationOf : public testing::TestWithParam<DType> {};

std::vector<Case> masked_cases(DType dtype) {
  return {
      {.seed = 201, .dtype = dtype, .heads_q = 4, .heads_kv = 2, .sq = 40, .sk = 40, .d = 12, .dv = 20, .causal = true},
      {.seed = 202,
       .dtype = dtype,
       .heads_q = 2,
       .heads_kv = 2,
       .sq = 50,
       .sk = 33,
       .d = 16,
       .dv = 16,
       .causal = true,
       .alignment = Alignment::bottom_right},
      {.seed = 203,
       .dtype = dtype,
       .heads_q = 2,
       .heads_kv = 1,
       .sq = 70,
       .sk = 70,
       .d = 17,
       .dv = 9,
       .window = {4, 3},
       .alignment = Alignment::top_left},
      {.seed = 204,
       .dtype = dtype,
       .batch = 2,
       .heads_q = 2,
       .heads_kv = 2,
       .sq = 20,
       .sk = 30,
       .d = 8,
       .dv = 8,
       .lengths = Lengths::both,
       .lengths_q = {13, 20},
       .lengths_k = {30, 9}},
      {.seed = 205,
       .dtype = dtype,
       .batch = 3,
       .heads_q = 2,
       .heads_kv = 1,
       .sq = 20,
       .sk = 21,
       .d = 8,
       .dv = 8,
       .causal = true,
       .alignment = Alignment::top_left,
       .sinks = true,
       .lengths = Lengths::packed,
       .lengths_q = {20, 3, 11},
       .lengths_k = {21, 8, 2}},
      {.seed = 206,
       .dtype = dtype,
       .heads_q = 2,
       .heads_kv = 1,
       .sq = 30,
       .sk = 30,
       .d = 8,
       .dv = 8,
       .causal = true,
       .softcap = 4,
       .alibi = true,
       .bias = true,
       .bias_shape = {false, true, true}},
      {.seed = 207,
       .dtype = dtype,
       .heads_q = 2,
       .heads_kv = 1,
       .sq = 40,
       .sk = 600,
       .d = 16,
       .dv = 16,
       .window = {20, 20},
       .alignment = Alignment::bottom_right},
  };
}

// One bad element in the last head of the first batch.
Data with_bad_element(const Case& c, Tensor Data::*input, std::int64_t row, float bad) {
  Data data(c);
  Tensor& tensor = data.*input;
  tensor.set(0, tensor.view.shape[1] - 1, row, tensor.view.shape[3] - 1, bad);
  data.remember();
  return data;
}

// NaN comes out exactly where the oracle has it. An infinity may become NaN, vanish (a score of -inf) or stay, but only
// where NaN in its place would have come out; everything else is as it was.
TEST_P(IsolationOf, BadValuesReachOnlyWhoUsesThem) {
  for (const Case& c : masked_cases(GetParam())) {
    for (Tensor Data::*input : {&Data::q, &Data::k, &Data::v, &Data::d_o}) {
      const char* name = input == &Data::q ? "Q" : input == &Data::k ? "K" : input == &Data::v ? "V" : "dO";
      for (const std::int64_t row : {0, 7, 19}) {
        const Data with_nan = with_bad_element(c, input, row, kNan);
        SCOPED_TRACE(testing::Message() << "row " << row << " of " << name);
        check(with_nan, Kernels::isolating, 128);
        const Results tainted = oracle(with_nan);
        for (const float bad : {kInf, -kInf}) {
          SCOPED_TRACE(testing::Message() << describe(c) << ", " << bad);
          const Data data = with_bad_element(c, input, row, bad);
          for (const std::string& isa : isas_for(c.dtype)) {
            const IsaScope scope(isa);
            Results results = run(data, {.kernel = "flash2", .threads = 2}).results;
            for (const auto& [output, member] : kOutputs) {
              for (std::size_t i = 0; i < (results.*member).size(); ++i) {
                if (std::isnan((tainted.*member)[i])) (results.*member)[i] = kNan;
              }
            }
            expect_near(c, tainted, results, 128, "flash2 " + isa);
          }
        }
        if (HasFailure()) return;
      }
    }
  }
}

// NaN wherever a mask hides a key from all rows: nothing of it may show anywhere, in any kernel that isolates rows.
TEST_P(IsolationOf, NothingLeaksFromMaskedPositions) {
  Case c{.seed = 211,
         .dtype = GetParam(),
         .heads_q = 2,
         .heads_kv = 1,
         .sq = 20,
         .sk = 64,
         .d = 12,
         .dv = 20,
         .causal = true,
         .alignment = Alignment::top_left,
         .bias = true,
         .bias_shape = {false, true, true}};
  Data data(c);
  for (std::int64_t j = c.sq; j < c.sk; ++j) {  // keys after the last row's diagonal
    for (std::int64_t e = 0; e < c.d; ++e) data.k.set(0, 0, j, e, e % 2 ? kNan : kInf);
    for (std::int64_t e = 0; e < c.dv; ++e) data.v.set(0, 0, j, e, e % 2 ? kNan : -kInf);
  }
  for_each(data.bias.view.shape, [&](auto b, auto h, auto i, auto j) {
    if (j > i) data.bias.set(b, h, i, j, kNan);
  });
  data.remember();
  const Results reference = oracle(data);
  for (const auto& [name, member] : kOutputs) {
    for (const double value : reference.*member) ASSERT_TRUE(std::isfinite(value)) << "oracle " << name;
  }
  check(data, Kernels::isolating);
}

// A row that a bias of -inf masks whole uses nothing, and nothing uses it.
TEST_P(IsolationOf, RowsMaskedByBiasUseNothing) {
  for (const std::int64_t keys : {40, 600}) {
    for (const bool sinks : {false, true}) {
      const Case c{.seed = 212,
                   .dtype = GetParam(),
                   .heads_q = 2,
                   .heads_kv = 1,
                   .sq = 20,
                   .sk = keys,
                   .d = 8,
                   .dv = 8,
                   .bias = true,
                   .bias_shape = {false, false, true},
                   .sinks = sinks};
      for (Tensor Data::*input : {&Data::q, &Data::k, &Data::v, &Data::d_o}) {
        Data data = with_bad_element(c, input, 6, kNan);
        for_each(data.bias.view.shape, [&](auto b, auto h, auto i, auto j) {
          if (i % 2 == 0) data.bias.set(b, h, i, j, -kInf);
        });
        data.remember();
        check(data, Kernels::isolating, 128);
        if (HasFailure()) return;
      }
    }
  }
}

// Where the first block of keys has no weight, what it spoils stays spoilt: a weight of zero times NaN.
TEST_P(IsolationOf, FirstKeysWithoutWeightSpoilToo) {
  const Case c{.seed = 213,
               .dtype = GetParam(),
               .heads_q = 2,
               .heads_kv = 1,
               .sq = 20,
               .sk = 1300,
               .d = 8,
               .dv = 8,
               .bias = true,
               .bias_shape = {false, false, true}};
  Data data = with_bad_element(c, &Data::v, 6, kNan);
  for_each(data.bias.view.shape, [&](auto b, auto h, auto i, auto j) {
    if (j < 1200) data.bias.set(b, h, i, j, -kInf);
  });
  data.remember();
  check(data, Kernels::isolating, 128);
}

INSTANTIATE_TEST_SUITE_P(Types, IsolationOf, testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(strobe::name_of(info.param)); });

// `standard` and `frugal` may spread a value that is not finite, but not beyond its head, and never from beyond a
// length.
class IsolationOfHeads : public testing::TestWithParam<const char*> {};

TEST_P(IsolationOfHeads, KeepsBadValuesInside) {
  Case c{.seed = 221,
         .batch = 2,
         .heads_q = 2,
         .heads_kv = 2,
         .sq = 10,
         .sk = 12,
         .lengths = Lengths::keys,
         .lengths_k = {9, 12}};
  Data data(c);
  data.k.set(0, 1, 3, 0, kNan);
  data.remember();
  const Results reference = oracle(data);
  const Results results = run(data, {.kernel = GetParam()}).results;
  for (const auto& [name, member] : {kOutputs[0], kOutputs[1], kOutputs[2], kOutputs[3], kOutputs[4]}) {
    const std::size_t head = (reference.*member).size() / 4;
    for (std::size_t i = 0; i < (reference.*member).size(); ++i) {
      const bool bad_head = i / head == 1;
      if (!bad_head) {
        EXPECT_TRUE(std::isfinite((results.*member)[i])) << name << "[" << i << "]";
      } else if (!std::isfinite((reference.*member)[i])) {
        EXPECT_FALSE(std::isfinite((results.*member)[i])) << name << "[" << i << "]";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, IsolationOfHeads, testing::Values("standard", "frugal"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace strobe::test
