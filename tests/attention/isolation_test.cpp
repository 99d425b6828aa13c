// Tests that NaN and infinities in the inputs affect only the rows that use them.
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

// Puts non-finite elements into inputs. The oracle shows which results they may affect. Runs all kernels except
// `standard` and `frugal`, which do not isolate rows.
class IsolationOf : public testing::TestWithParam<DType> {};

std::vector<Case> masked_cases(DType dtype) {
  return {
      case_from("h4/2 s40 d12/20 {} causal seed=201", name_of(dtype)),
      case_from("h2 s50x33 d16 {} causal=bottom_right seed=202", name_of(dtype)),
      case_from("h2/1 s70 d17/9 {} align=top_left window=4:3 seed=203", name_of(dtype)),
      case_from("b2 h2 s20x30 d8 {} lengths_q=13,20 lengths_k=30,9 seed=204", name_of(dtype)),
      case_from("b3 h2/1 s20x21 d8 {} causal=top_left sinks packed lengths_q=20,3,11 lengths_k=21,8,2 "
                "seed=205",
                name_of(dtype)),
      case_from("h2/1 s30 d8 {} causal softcap=4 alibi bias=1hqk seed=206", name_of(dtype)),
      case_from("h2/1 s40x600 d16 {} align=bottom_right window=20:20 seed=207", name_of(dtype)),
      case_from("b2 h2 s30x40 d12/20 {} mask=bhqk seed=208", name_of(dtype)),
      case_from("h2/1 s40x450 d16 {} mask=11qk mask_transposed softcap=4 d_lse seed=209", name_of(dtype)),
      case_from("b2 h2 s30x25 d8 {} first_keys=0,8 causal=top_left mask=1h1k seed=210", name_of(dtype)),
  };
}

// Returns data with one bad element, in the last head of the first sequence.
Data with_bad_element(const Case& c, Tensor Data::*input, std::int64_t row, float bad) {
  Data data(c);
  Tensor& tensor = data.*input;
  tensor.set(0, tensor.view.shape[1] - 1, row, tensor.view.shape[3] - 1, bad);
  data.remember();
  return data;
}

// NaN must appear exactly where the oracle has it. An infinity may become NaN, vanish (as a score of -inf) or remain,
// but only where a NaN would have appeared. All other values must be near the oracle's.
TEST_P(IsolationOf, BadValuesAffectOnlyRowsThatUseThem) {
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

// Puts NaN and infinities at every key that a mask hides from all rows. They must not change any result of a kernel
// that isolates rows.
TEST_P(IsolationOf, NothingLeaksFromMaskedPositions) {
  Case c = case_from("h2/1 s20x64 d12/20 {} causal=top_left bias=1hqk seed=211", name_of(GetParam()));
  Data data(c);
  for (std::int64_t j = c.sq; j < c.sk; ++j) {  // keys that the last row does not see
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

// A row in which every bias is -inf uses no key and contributes to no gradient.
TEST_P(IsolationOf, RowsMaskedByBiasUseNothing) {
  for (const std::int64_t keys : {40, 600}) {
    for (const bool sinks : {false, true}) {
      const Case c = case_from("h2/1 s20x{} d8 {} bias=11qk sinks={} seed=212", keys, name_of(GetParam()), sinks);
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

// A NaN in V affects the result even if its key has probability 0, because 0 * NaN is NaN.
TEST_P(IsolationOf, NanInVHasAnEffectAtProbabilityZero) {
  const Case c = case_from("h2/1 s20x1300 d8 {} bias=11qk seed=213", name_of(GetParam()));
  Data data = with_bad_element(c, &Data::v, 6, kNan);
  for_each(data.bias.view.shape, [&](auto b, auto h, auto i, auto j) {
    if (j < 1200) data.bias.set(b, h, i, j, -kInf);
  });
  data.remember();
  check(data, Kernels::isolating, 128);
}

INSTANTIATE_TEST_SUITE_P(Types, IsolationOf, testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(strobe::name_of(info.param)); });

// `standard` and `frugal` may spread a non-finite value within its head, but not to other heads. Values past a
// sequence's length affect nothing.
class IsolationOfHeads : public testing::TestWithParam<const char*> {};

TEST_P(IsolationOfHeads, KeepsBadValuesInTheirHead) {
  Case c = case_from("b2 h2 s10x12 lengths_k=9,12 seed=221");
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
