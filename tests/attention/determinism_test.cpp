// Both passes give the same bits for any number of threads and however often they run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/check.h"
#include "support/compare.h"
#include "support/isa_scope.h"
#include "support/run.h"
#include "support/sanitized.h"

namespace strobe::test {
namespace {

// A sanitizer sees in one run of several threads what it can see, and makes it many times slower.
constexpr int kRepeats = kSanitized ? 10 : 250;
const std::vector<int> kThreads = kSanitized ? std::vector{3} : std::vector{2, 3, 5, 8};

// Problems whose work is shared out in different ways.
std::vector<Case> shapes() {
  return {
      {.seed = 11, .sq = 700, .sk = 700, .d = 64, .dv = 64},  // one head, several blocks of keys
      {.seed = 12,
       .batch = 2,
       .heads_q = 8,
       .heads_kv = 2,
       .sq = 130,
       .sk = 190,
       .d = 40,
       .dv = 24,
       .causal = true,
       .alignment = Alignment::bottom_right},
      // Threads take whole units, up to as many as there are.
      {.seed = 20, .heads_q = 4, .heads_kv = 4, .sq = 100, .sk = 900, .d = 32, .dv = 32},
      {.seed = 19, .batch = 4, .heads_q = 4, .heads_kv = 4, .sq = 110, .sk = 210, .d = 32, .dv = 32},
      {.seed = 13, .heads_q = 2, .heads_kv = 1, .sq = 1, .sk = 3000, .d = 64, .dv = 64},  // split over keys
      {.seed = 14,
       .batch = 3,
       .heads_q = 4,
       .heads_kv = 2,
       .sq = 150,
       .sk = 270,
       .d = 32,
       .dv = 32,
       .bias = true,
       .sinks = true},  // one row of dbias collects from every row of every head
      {.seed = 17,
       .batch = 3,
       .heads_q = 4,
       .heads_kv = 2,
       .sq = 60,
       .sk = 470,
       .d = 16,
       .dv = 16,
       .bias = true,
       .bias_shape = {.heads = true, .rows = true}},  // dbias collects over the batch, head by head
      {.seed = 18,
       .batch = 3,
       .heads_q = 2,
       .heads_kv = 2,
       .sq = 60,
       .sk = 470,
       .d = 16,
       .dv = 16,
       .bias = true,
       .bias_shape = {.batch = true}},  // over the heads, sequence by sequence
      {.seed = 15,
       .batch = 2,
       .heads_q = 3,
       .heads_kv = 3,
       .sq = 100,
       .sk = 300,
       .d = 48,
       .dv = 80,
       .causal = true,
       .window = {40, -1},
       .alignment = Alignment::top_left,
       .softcap = 5,
       .alibi = true,
       .dropout = 0.2f},
      {.seed = 16,
       .batch = 4,
       .heads_q = 2,
       .heads_kv = 1,
       .sq = 200,
       .sk = 290,
       .d = 64,
       .dv = 64,
       .lengths = Lengths::packed,
       .lengths_q = {200, 0, 3, 77},
       .lengths_k = {290, 31, 0, 128}},
  };
}

std::string name_of_dtype(const testing::TestParamInfo<DType>& info) { return strobe::name_of(info.param); }

class Determinism : public testing::TestWithParam<DType> {};

TEST_P(Determinism, AnyNumberOfThreads) {
  for (Case c : shapes()) {
    c.dtype = GetParam();
    SCOPED_TRACE(describe(c));
    const Data data(c);
    for (const char* kernel : {"flash2", "frugal", "standard", "reference"}) {
      // It computes in float64 whatever the type, and takes half a minute under a sanitizer: one type is enough.
      if (kSanitized && std::string(kernel) == "reference" && c.dtype != DType::fp32) continue;
      for (const std::string& isa :
           std::string(kernel) == "flash2" ? isas_for(c.dtype) : std::vector<std::string>{"generic"}) {
        const IsaScope scope(isa);
        const Results one = kSanitized ? Results{} : run(data, {.kernel = kernel, .threads = 1}).results;
        for (const int threads : kThreads) {
          const Outcome many = run(data, {.kernel = kernel, .threads = threads});
          EXPECT_EQ(many.complaint, "") << kernel << " " << isa << ", " << threads << " threads";
          if (kSanitized) continue;
          EXPECT_EQ(first_difference(one, many.results), "") << kernel << " " << isa << ", " << threads << " threads";
        }
      }
    }
  }
}

TEST_P(Determinism, Repeated) {
  const std::vector<Case> small = {
      {.seed = 21, .heads_q = 2, .heads_kv = 1, .sq = 70, .sk = 90, .d = 32, .dv = 32},
      {.seed = 22,
       .batch = 2,
       .heads_q = 2,
       .heads_kv = 2,
       .sq = 33,
       .sk = 65,
       .d = 16,
       .dv = 24,
       .causal = true,
       .alignment = Alignment::bottom_right,
       .bias = true,
       .sinks = true,
       .dropout = 0.1f},
  };
  const auto repeat = [](const Case& c, int times) {
    SCOPED_TRACE(describe(c));
    const Data data(c);
    for (const std::string& isa : isas_for(c.dtype)) {
      const IsaScope scope(isa);
      const Results first = run(data, {.kernel = "flash2", .threads = 3}).results;
      for (int i = 1; i < times; ++i) {
        const Results again = run(data, {.kernel = "flash2", .threads = 3, .own_workspace = i % 2 == 0}).results;
        ASSERT_EQ(first_difference(first, again), "") << isa << ", repetition " << i;
      }
    }
  };
  for (Case c : small) {
    c.dtype = GetParam();
    repeat(c, kRepeats);
  }
  for (Case c : shapes()) {
    c.dtype = GetParam();
    repeat(c, 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Determinism, testing::ValuesIn(kDTypes), name_of_dtype);

}  // namespace
}  // namespace strobe::test
