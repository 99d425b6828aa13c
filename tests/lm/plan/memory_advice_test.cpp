// Tests the advice for training steps that do not fit in memory: the proposed flags fit, and the next larger batch does
// not.
#include "lm/plan/memory_advice.h"

#include <gtest/gtest.h>

#include "lm/plan/device_memory.h"

namespace strobe::lm {
namespace {

BenchCase small(std::int64_t batch) { return {.shape = shape_of("small"), .batch = batch}; }

TEST(MemoryAdvice, NamesTheLargestBatchThatFits) {
  const std::size_t free = predicted_bytes(small(5)) + 1000;
  EXPECT_GT(predicted_bytes(small(6)), free);
  EXPECT_EQ(memory_advice(small(40), free).find("valid: --batch 5"), 0u) << memory_advice(small(40), free);
}

TEST(MemoryAdvice, ProposesRecomputationAndANarrowTypeIfTheyFit) {
  BenchCase recomputed = small(8);
  recomputed.recompute = Recompute::block;
  const std::string advice = memory_advice(small(8), predicted_bytes(recomputed));
  EXPECT_NE(advice.find("--recompute block"), std::string::npos) << advice;
  BenchCase narrow = small(64);
  narrow.precision = Precision::bf16;
  EXPECT_NE(memory_advice(small(64), predicted_bytes(narrow)).find("--precision bf16"), std::string::npos);
  EXPECT_EQ(memory_advice(narrow, predicted_bytes(narrow) / 2).find("bf16"), std::string::npos);
}

// On a GPU the allocation of the model may fail. The error must then contain the advice.
TEST(MemoryAdvice, IsAddedToAFailedAllocation) {
  const auto text_of = [](ErrorCode code) {
    try {
      return with_memory_advice(small(1 << 20), [&]() -> std::string { throw Error(code, "cuda: cannot allocate"); });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(text_of(ErrorCode::out_of_memory).find("cuda: cannot allocate; valid: --batch "), 0u);
  EXPECT_EQ(text_of(ErrorCode::runtime), "cuda: cannot allocate");
}

TEST(MemoryAdvice, CombinesRecomputationWithABatchIfNeitherFits) {
  BenchCase one = small(1);
  one.precision = Precision::bf16;
  one.shape.context = 4096;  // activations of one sequence are larger than the optimizer's buffers
  BenchCase recomputed = one;
  recomputed.recompute = Recompute::block;
  const std::size_t free = predicted_bytes(recomputed);
  ASSERT_LT(free, predicted_bytes(one));
  one.batch = 64;
  EXPECT_EQ(memory_advice(one, free), "valid: --recompute block --batch 1");
}

TEST(MemoryAdvice, ReportsThatNoBatchFits) {
  EXPECT_EQ(memory_advice(small(4), 1000), "no smaller batch fits; valid: a smaller model or --context");
}

}  // namespace
}  // namespace strobe::lm
