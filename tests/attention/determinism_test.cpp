// Tests that both passes give the same bits for any number of threads and in every run.
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

// A sanitizer makes each run many times slower, so few repetitions must suffice.
constexpr int kRepeats = kSanitized ? 10 : 250;
const std::vector<int> kThreads = kSanitized ? std::vector{3} : std::vector{2, 3, 5, 8};

// Shapes for the different ways in which work is divided among threads.
std::vector<Case> shapes() {
  return {
      case_from("s700 d64 seed=11"),  // one head, several blocks of keys
      case_from("b2 h8/2 s130x190 d40/24 causal=bottom_right seed=12"),
      // Threads take whole units of work (KV heads of a sequence) if there are at least as many units as threads.
      case_from("h4 s100x900 d32 seed=20"),
      case_from("b4 h4 s110x210 d32 seed=19"),
      case_from("h2/1 s1x3000 d64 seed=13"),                      // one row of many keys: keys are split among threads
      case_from("b3 h4/2 s150x270 d32 bias=111k sinks seed=14"),  // dbias sums over the batch, heads and rows
      case_from("b3 h4/2 s60x470 d16 bias=1hqk seed=17"),         // dbias sums over the batch
      case_from("b3 h2 s60x470 d16 bias=b11k seed=18"),           // dbias sums over heads and rows
      case_from("b2 h3 s100x300 d48/80 causal=top_left window=40:-1 softcap=5 alibi dropout=0.2 seed=15"),
      case_from("b2 h4/2 s150x400 d32 mask=b1qk first_keys=30,170 alibi alibi_batch align=top_left d_lse seed=21"),
      case_from("b4 h2/1 s200x290 d64 packed lengths_q=200,0,3,77 lengths_k=290,31,0,128 seed=16"),
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
      // `reference` computes in float64 for every dtype and takes half a minute under a sanitizer, so it runs one
      // dtype.
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
      case_from("h2/1 s70x90 d32 seed=21"),
      case_from("b2 h2 s33x65 d16/24 causal=bottom_right bias=111k sinks dropout=0.1 seed=22"),
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
