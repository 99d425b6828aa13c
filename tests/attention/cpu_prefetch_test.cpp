// Tests plan_prefetch() of attention/cpu/plan.h. While a thread computes a unit of work (one KV head of a sequence), it
// prefetches the unit's output and the inputs of the unit that it computes next.
#include "attention/cpu/plan.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace strobe::cpu {
namespace {

struct PrefetchCall {
  static constexpr std::int64_t kUnits = 6, kRows = 128, kDim = 32;
  std::vector<float> q = std::vector<float>(kUnits * kRows * kDim), k = q, v = q, o = q;
  Isa isa{};
  Problem problem;
  Plan plan{};

  PrefetchCall() {
    isa.forward_pipelined = [](const ForwardStep*, const ForwardStep*, const ForwardStep*) {};
    problem.batch = kUnits;
    problem.heads_q = problem.heads_kv = problem.group = 1;
    problem.max_seqlen_q = problem.max_seqlen_k = kRows;
    problem.d = problem.dv = kDim;
    const std::array<std::int64_t, 4> shape{kUnits, 1, kRows, kDim};
    problem.q = view_bhsd<const void>(q.data(), DType::fp32, shape);
    problem.k = view_bhsd<const void>(k.data(), DType::fp32, shape);
    problem.v = view_bhsd<const void>(v.data(), DType::fp32, shape);
    problem.o = view_bhsd<void>(o.data(), DType::fp32, shape);
    plan.isa = &isa;
    plan.row_blocks = 1;
    plan.threads = 2;
    plan.units = kUnits;
  }
  std::optional<Prefetch> prefetch(std::int64_t unit) const { return plan_prefetch(problem, plan, unit); }
  static const char* of_unit(const std::vector<float>& tensor, std::int64_t unit) {
    return reinterpret_cast<const char*>(tensor.data() + unit * kRows * kDim);
  }
};

TEST(PlanPrefetch, CoversThisOutputAndTheThreadsNextInputs) {
  const PrefetchCall call;
  const std::optional<Prefetch> prefetch = call.prefetch(1);
  ASSERT_TRUE(prefetch);
  EXPECT_EQ(prefetch->tensors[0], PrefetchCall::of_unit(call.o, 1));
  EXPECT_EQ(prefetch->tensors[1], PrefetchCall::of_unit(call.q, 3));
  EXPECT_EQ(prefetch->tensors[2], PrefetchCall::of_unit(call.k, 3));
  EXPECT_EQ(prefetch->tensors[3], PrefetchCall::of_unit(call.v, 3));
  EXPECT_EQ(prefetch->at, 0);
}

TEST(PlanPrefetch, CoversOnlyTheOutputForTheLastUnit) {
  const PrefetchCall call;
  const std::optional<Prefetch> prefetch = call.prefetch(PrefetchCall::kUnits - 1);
  ASSERT_TRUE(prefetch);
  for (const char* tensor : prefetch->tensors)
    EXPECT_EQ(tensor, PrefetchCall::of_unit(call.o, PrefetchCall::kUnits - 1));
}

// One cache line of each tensor is prefetched per 64 scores. Here a tensor has 256 lines and the unit 128 x 128 scores,
// so every line is prefetched: `step` is 64 bytes.
TEST(PlanPrefetch, ReachesTheLastLineInTime) {
  PrefetchCall call;
  std::optional<Prefetch> prefetch = call.prefetch(0);
  ASSERT_TRUE(prefetch);
  EXPECT_EQ(prefetch->step, 64);
  EXPECT_EQ(prefetch->last, PrefetchCall::kRows * PrefetchCall::kDim * 4 - 64);
  // Half as many cache lines, but only a quarter of the scores.
  call.problem.max_seqlen_q = call.problem.max_seqlen_k = PrefetchCall::kRows / 2;
  prefetch = call.prefetch(0);
  ASSERT_TRUE(prefetch);
  EXPECT_EQ(prefetch->step, 128);
  EXPECT_EQ(prefetch->last, PrefetchCall::kRows / 2 * PrefetchCall::kDim * 4 - 64);
}

TEST(PlanPrefetch, IsAbsentIfItDoesNotFit) {
  const auto is_absent = [](auto&& change) {
    PrefetchCall call;
    change(call);
    return !call.prefetch(0);
  };
  EXPECT_FALSE(is_absent([](PrefetchCall&) {}));
  EXPECT_TRUE(is_absent([](PrefetchCall& call) { call.isa.forward_pipelined = nullptr; }));
  EXPECT_TRUE(is_absent([](PrefetchCall& call) { call.plan.row_blocks = 2; }));
  EXPECT_TRUE(is_absent([](PrefetchCall& call) { call.problem.group = 2; }));
  EXPECT_TRUE(is_absent([](PrefetchCall& call) { call.problem.max_seqlen_k = PrefetchCall::kRows + 1; }));
  EXPECT_TRUE(is_absent([](PrefetchCall& call) { call.problem.dv = PrefetchCall::kDim / 2; }));
  EXPECT_TRUE(is_absent([](PrefetchCall& call) { call.problem.v.stride[2] = 2 * PrefetchCall::kDim; }));
  EXPECT_TRUE(is_absent([](PrefetchCall& call) { call.problem.max_seqlen_q = call.problem.max_seqlen_k = 0; }));
}

}  // namespace
}  // namespace strobe::cpu
