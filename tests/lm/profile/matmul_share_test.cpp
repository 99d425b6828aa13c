// Shares of matmuls in profiles that are made up, on the CPU and on a GPU.
#include "lm/profile/matmul_share.h"

#include <gtest/gtest.h>

#include "lm/profile/kernels.h"

namespace strobe::lm {
namespace {

constexpr const char* kGemm = "nvjet_sm90_tst_128x160_64x5_2x1_v_bz_NNT";
constexpr const char* kSoftmax =
    "void strobe::standard::(anonymous namespace)::plain_softmax_rows<float>(strobe::Params)";
constexpr const char* kFused = "void strobe::cuda::sm90::forward_kernel<strobe::cuda::Bf16, 64>(strobe::Args)";

TimedOperation operation(const char* name, OperationKind kind, Phase phase, double seconds) {
  TimedOperation one;
  one.name = name;
  one.kind = kind;
  one.phase = phase;
  one.seconds = seconds;
  return one;
}

// 10 s forward, 20 s backward, 10 s update; attention takes 4 s forward and 8 s backward.
Profile step_on_cpu() {
  Profile profile;
  profile.steps = {{0, 40}};
  profile.operations = {operation("linear", OperationKind::product, Phase::forward, 5),
                        operation("attention", OperationKind::attention, Phase::forward, 4),
                        operation("rms_norm", OperationKind::norm, Phase::forward, 1),
                        operation("linear backward weight", OperationKind::product, Phase::backward, 12),
                        operation("attention backward", OperationKind::attention, Phase::backward, 8),
                        operation("adamw", OperationKind::optimizer, Phase::update, 10)};
  return profile;
}

TEST(MatmulShare, FusedAttentionCountsAsAWholeOrNotAtAll) {
  const Profile profile = step_on_cpu();
  ASSERT_TRUE(is_attention_fused(profile));
  const MatmulTime forward = matmul_time(profile, {Phase::forward});
  EXPECT_DOUBLE_EQ(forward.all(), 10);
  EXPECT_DOUBLE_EQ(forward.linear_share(), 0.5);
  EXPECT_DOUBLE_EQ(forward.attention_matmuls, 0);
  EXPECT_DOUBLE_EQ(forward.share_with_attention(true), 0.9);
  const MatmulTime step = matmul_time(profile, {Phase::forward, Phase::backward, Phase::update});
  EXPECT_DOUBLE_EQ(step.all(), 40);
  EXPECT_DOUBLE_EQ(step.linear_share(), 17.0 / 40);
  EXPECT_DOUBLE_EQ(step.share_with_attention(true), 29.0 / 40);
}

TEST(MatmulShare, PartsOnTheCpuAreMatmulsOrNot) {
  Profile profile = step_on_cpu();
  profile.parts = {{.name = "score product", .kind = PartKind::product, .operation = 1, .seconds = 1.5},
                   {.name = "softmax", .kind = PartKind::other, .operation = 1, .seconds = 1},
                   {.name = "output product", .kind = PartKind::product, .operation = 1, .seconds = 0.5},
                   {.name = "dQ product", .kind = PartKind::product, .operation = 4, .seconds = 3}};
  ASSERT_FALSE(is_attention_fused(profile));
  const MatmulTime forward = matmul_time(profile, {Phase::forward});
  EXPECT_DOUBLE_EQ(forward.attention_matmuls, 2);
  EXPECT_DOUBLE_EQ(forward.attention_rest, 2);
  EXPECT_DOUBLE_EQ(forward.other, 1);
  EXPECT_DOUBLE_EQ(forward.share_with_attention(false), 0.7);
  const MatmulTime both = matmul_time(profile, {Phase::forward, Phase::backward});
  EXPECT_DOUBLE_EQ(both.attention_matmuls, 5);
  EXPECT_DOUBLE_EQ(both.all(), 30);
}

// On a GPU, kernels of a library inside attention are its matmuls; its own kernels, copies and clears are not.
TEST(MatmulShare, LibraryKernelsOfAttentionAreMatmuls) {
  Profile profile = step_on_cpu();
  for (TimedOperation& one : profile.operations) one.seconds = 0;
  profile.operations[0].seconds = 5;
  const auto record = [](const char* name, std::uint64_t launcher, double begin, double seconds) {
    return GpuRecord{.name = name, .launcher = launcher, .begin = begin, .seconds = seconds};
  };
  GpuRecord clear = record("clear", 2, 6, 0.25);
  clear.kind = GpuRecord::Kind::clear;
  attribute(profile,
            {record(kGemm, 2, 0, 1), record(kSoftmax, 2, 2, 0.75), record(kGemm, 2, 4, 2), clear,
             record(kGemm, 4, 8, 3), record(kGemm, 5, 12, 4)},
            0);
  ASSERT_FALSE(is_attention_fused(profile));
  const MatmulTime forward = matmul_time(profile, {Phase::forward});
  EXPECT_DOUBLE_EQ(forward.linear, 5);
  EXPECT_DOUBLE_EQ(forward.attention_matmuls, 3);
  EXPECT_DOUBLE_EQ(forward.attention_rest, 1);
  EXPECT_DOUBLE_EQ(matmul_time(profile, {Phase::backward}).attention_matmuls, 4);
  EXPECT_DOUBLE_EQ(matmul_time(profile, {Phase::backward}).linear, 3);

  Profile fused = step_on_cpu();
  attribute(fused, {record(kFused, 2, 0, 1)}, 0);
  EXPECT_TRUE(is_attention_fused(fused));
  EXPECT_DOUBLE_EQ(matmul_time(fused, {Phase::forward}).attention_matmuls, 0);
}

TEST(MatmulShare, NoTimeIsNoShare) {
  EXPECT_EQ(matmul_time(Profile{}, {Phase::forward}).linear_share(), 0);
  EXPECT_EQ(matmul_time(Profile{}, {Phase::update}).share_with_attention(true), 0);
}

}  // namespace
}  // namespace strobe::lm
