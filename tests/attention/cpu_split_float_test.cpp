// Tests fp32 as split bf16 floats, on AMX. The exactness rule (support/compare.h) holds for any magnitudes. If a value
// cannot be split, the next lower instruction set runs. explain() reports which problems are split.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attention/cpu/isa.h"
#include "strobe/attention.h"
#include "support/compare.h"
#include "support/isa_scope.h"
#include "support/run.h"
#include "support/spread.h"

namespace strobe::test {
namespace {

constexpr const char* kSet = "amx";

class CpuSplitFloats : public testing::Test {
 protected:
  void SetUp() override {
    const cpu::Isa* isa = cpu::find_isa(kSet, DType::fp32);
    if (!isa || isa->terms == 1) GTEST_SKIP() << "this machine does not have " << kSet;
  }
};

// Returns cases with one block of keys, and with several.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [rows, keys] : {std::pair{70, 90}, {130, 700}}) {
    Case c = case_from("h2/1 s{}x{} d48/40 seed=41", rows, keys);
    all.push_back(c);
    c.causal = true;
    c.alignment = Alignment::bottom_right;
    all.push_back(c);
  }
  return all;
}

Results run_on(const char* isa, const Data& data) {
  const IsaScope scope(isa);
  const Outcome outcome = run(data, {.kernel = "flash2", .threads = 2, .own_workspace = true});
  EXPECT_EQ(outcome.complaint, "") << isa;
  return outcome.results;
}

// Applies the exactness rule of support/compare.h. If random inputs break it, most of many other draws must satisfy it.
template <class Change>
std::string rule(Case c, Change&& change) {
  const auto broken = [&](const Data& data) {
    const Results standard = run(data, {.kernel = "standard", .threads = 2}).results;
    return exactness_by_output(c, oracle(data), standard, run_on(kSet, data));
  };
  const auto data = [&] {
    Data changed(c);
    change(changed);
    return changed;
  };
  std::string lines;
  for (const std::string& line : broken(data())) lines += line;
  if (lines.empty()) return {};
  Draws draws;
  for (int draw = 0; draw < Draws::kCount; ++draw) {
    c.seed += 1000;
    draws.add(broken(data()));
  }
  return draws.verdict();
}

TEST_F(CpuSplitFloats, KeepTheExactnessRuleForRowsOfDifferentMagnitudes) {
  for (const Case& c : cases()) {
    for (const auto& [name, kind] : kSpreads) {
      for (const int powers : {12, 19, 36, 60}) {
        if (kind == Spread::all && powers != 12) continue;
        EXPECT_EQ(rule(c, [&, kind = kind](Data& data) { spread(data, kind, powers); }), "")
            << describe(c) << ", " << name << " by 2^" << powers;
      }
    }
  }
}

// Scales each input tensor by a power of two, from 2^-100 to 2^60. Two cases scale down all three factors of dQ (V, dO
// and K), or of dK (V, dO and Q).
TEST_F(CpuSplitFloats, KeepTheExactnessRuleForInputsOfAnyMagnitude) {
  struct Sizes {
    int q, k, v, d_o;
  };
  for (const Case& c : cases()) {
    for (const Sizes& by : {Sizes{0, 0, -38, -38},
                            {0, -36, -36, -36},
                            {-36, 0, -36, -36},
                            {-38, 30, 0, -38},
                            {0, 0, 17, 17},
                            {0, 0, 0, -60},
                            {0, 0, -60, -60},
                            {0, 0, 60, -100},
                            {-20, 18, 18, 18}}) {
      const auto change = [&](Data& data) {
        change_inputs(data, [&](int tensor, std::int64_t, float value) {
          return std::ldexp(value, tensor == 0 ? by.q : tensor == 1 ? by.k : tensor == 2 ? by.v : by.d_o);
        });
      };
      EXPECT_EQ(rule(c, change), "") << describe(c) << ", by 2^" << by.q << ", 2^" << by.k << ", 2^" << by.v << ", 2^"
                                     << by.d_o;
    }
  }
}

// A single value that split floats cannot represent makes the call give the bits of the next lower instruction set.
// Without such a value the bits differ.
TEST_F(CpuSplitFloats, ValuesThatCannotBeSplitUseTheNextLowerSet) {
  const Case c = cases().back();
  EXPECT_NE(first_difference(run_on(kSet, Data(c)), run_on("avx512", Data(c))), "");
  for (Tensor Data::*input : {&Data::q, &Data::k, &Data::v}) {
    Data data(c);
    (data.*input).set(0, 0, 33, 7, 0x1p30f);
    data.remember();
    EXPECT_EQ(first_difference(run_on(kSet, data), run_on("avx512", data)), "");
  }
  // The forward does not use dO, so only the backward uses the lower set.
  Data data(c);
  data.d_o.set(0, 1, 64, 3, 0x1p30f);
  data.remember();
  const Results terms = run_on(kSet, data), without = run_on("avx512", data);
  EXPECT_NE(terms.o, without.o);
  EXPECT_LT(deviation(without.dq, terms.dq, DType::fp32).max,
            1e-5 * deviation(without.dq, terms.dq, DType::fp32).reference_max);
}

TEST_F(CpuSplitFloats, ExplainReportsSplitFloats) {
  const auto configuration = [](const char* isa, std::int64_t keys, std::int64_t d, float scale, DType dtype) {
    const IsaScope scope(isa);
    const auto view = [&](std::int64_t rows) { return view_bhsd<const void>(nullptr, dtype, {1, 2, rows, d}); };
    Attention a{};
    a.q = view(64);
    a.k = a.v = view(keys);
    a.scale = scale;
    for (const Verdict& verdict : explain(a, Pass::forward, {.kernel = "flash2"})) {
      if (verdict.chosen) return verdict.configuration;
    }
    return std::string("none");
  };
  const auto is_split = [](const std::string& text) { return text.starts_with("amx, fp32 panels split into 3 bf16"); };
  EXPECT_TRUE(is_split(configuration("", 512, 64, 0.125f, DType::fp32)));
  EXPECT_TRUE(is_split(configuration("amx", 512, 64, 0.125f, DType::fp32)));
  EXPECT_TRUE(is_split(configuration("amx", 8, 8, 0.125f, DType::fp32)));
  for (const std::string& text :
       {configuration("", 8, 64, 0.125f, DType::fp32), configuration("", 512, 8, 0.125f, DType::fp32),
        configuration("avx512", 512, 64, 0.125f, DType::fp32), configuration("amx", 512, 64, 1e30f, DType::fp32),
        configuration("amx", 512, 64, 1e-30f, DType::fp32), configuration("amx", 512, 64, 0.125f, DType::fp16)}) {
    EXPECT_TRUE(text.starts_with("avx512, fp32 panels,")) << text;
  }
  EXPECT_TRUE(configuration("", 512, 64, 0.125f, DType::bf16).starts_with("amx, bf16 panels,"));
}

}  // namespace
}  // namespace strobe::test
