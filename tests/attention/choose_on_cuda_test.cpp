// The chooser for cards that this machine need not have: what it needs of a GPU is in the problem. Runs in every build
// with CUDA, with a GPU and without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attention/kernel.h"
#include "attention/small_problem.h"
#include "attention/validate.h"
#include "device/device_info.h"

namespace strobe {
namespace {

// The kernels of plain problems and those with score options have tiles of their own.
enum class Scores { plain, options };

// Of the specification's table: every head dimension, both passes, all types.
Problem problem_of(std::int64_t d, DType dtype, Pass pass, const GpuFacts& gpu, Scores scores = Scores::plain) {
  Attention attention;
  attention.q = view_bhsd<const void>(nullptr, dtype, {2, 8, 1000, d});
  attention.k = view_bhsd<const void>(nullptr, dtype, {2, 2, 1000, d});
  attention.v = view_bhsd<const void>(nullptr, dtype, {2, 2, 1000, d});
  attention.causal = true;
  if (scores == Scores::options) attention.softcap = 5;
  Problem problem = validate_query(attention, pass, {});
  problem.device = Device::cuda;
  problem.gpu = gpu;
  return problem;
}

class ChooseOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_inventory().compiled_in) GTEST_SKIP() << gpu_inventory().reason;
  }
};

// Ada and consumer Blackwell 99 KB, Ampere's A100 163, Hopper 227: what the tiled kernel takes on the largest of them,
// it takes on all, for every D. A type that it does not have yet goes to another kernel, on every card.
TEST_F(ChooseOnCuda, EveryHeadDimensionOnEveryCard) {
  const GpuFacts cards[] = {{89, 99 << 10, 128}, {120, 99 << 10, 170}, {80, 163 << 10, 108}, {90, 227 << 10, 132}};
  const Kernel* first = nullptr;
  for (const Kernel& kernel : kernels()) {
    if (!first && kernel.device == Device::cuda) first = &kernel;
  }
  ASSERT_NE(first, nullptr);
  for (const GpuFacts& card : cards) {
    for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
      const bool has_type = first->refusal(problem_of(64, dtype, Pass::forward, {90, 227 << 10, 132})).empty();
      EXPECT_TRUE(has_type || dtype == DType::fp32) << name_of(dtype);
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        for (std::int64_t d = 1; d <= 256; ++d) {
          for (const Scores scores : {Scores::plain, Scores::options}) {
            const Problem problem = problem_of(d, dtype, pass, card, scores);
            const Kernel& chosen = choose(problem);
            ASSERT_EQ(&chosen == first, has_type) << fmt::format(
                "{} D {} on a card of {}.{} with {} KB: {}", name_of(dtype), d, card.compute_capability / 10,
                card.compute_capability % 10, card.shared_bytes_per_block >> 10, first->refusal(problem));
            ASSERT_FALSE(chosen.configuration(problem).empty());
          }
        }
      }
    }
  }
}

TEST_F(ChooseOnCuda, OlderCardsAreRefusedWithTheReason) {
  const Problem problem = problem_of(64, DType::fp16, Pass::forward, {75, 64 << 10, 40});
  try {
    choose(problem);
    FAIL() << "a kernel for compute capability 7.5";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("compute capability 7.5"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace strobe
