// Tests the profile of a training step on the CPU: calls, FLOPs and bytes per operation, sums, and shares of the time.
#include "lm/profile/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "lm/profile/trace.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

BenchCase small_case() {
  return {.shape = {.d_model = 16, .d_ff = 24, .layers = 2, .heads = 2, .vocabulary = 11, .context = 5},
          .batch = 2,
          .warmup = 1,
          .steps = 3};
}

const OperationSum& sum_of(const std::vector<OperationSum>& sums, const std::string& name) {
  for (const OperationSum& one : sums) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(name);
}

// The expected counts are computed by hand for d 16, d_ff 24, vocabulary 11, 2 layers, 10 tokens and 3 steps.
TEST(Profile, CountsCallsFlopsAndBytes) {
  const Profile profile = profile_step(small_case());
  ASSERT_EQ(profile.steps.size(), 3u);
  const std::vector<OperationSum> sums = sums_by_name(profile);
  const OperationSum& linear = sum_of(sums, "linear");
  EXPECT_EQ(linear.calls, 3 * (2 * 4 + 1));
  const double weights = 2 * (4 * 16 * 16 + 3 * 16 * 24) + 16 * 11;
  EXPECT_EQ(linear.flops, 3 * 2 * 10 * weights);
  for (const char* const name : {"linear backward input", "linear backward weight"}) {
    EXPECT_EQ(sum_of(sums, name).flops, linear.flops) << name;
  }
  const OperationSum& rope = sum_of(sums, "rope");
  EXPECT_EQ(rope.bytes, 3 * 2 * (2 * 10 * 2 * 16 * 4)) << "q and k, read and written";
  EXPECT_EQ(sum_of(sums, "rope backward").bytes, rope.bytes);
  EXPECT_EQ(sum_of(sums, "adamw").bytes, 3 * 28 * static_cast<double>(parameter_count(small_case().shape)));
  // The step's FLOPs equal those of the bench, except that attention's backward counts 5 matmuls here and 4 there.
  const double attention = sum_of(sums, "attention").flops;
  EXPECT_EQ(attention, 3 * 2 * (2 * 10 * 5 * 16));
  EXPECT_EQ(3 * linear.flops + 3 * attention, 3 * flops_of(small_case()));
  EXPECT_EQ(sum_of(sums, "attention backward").flops, 2.5 * attention);
}

// Recomputation counts as backward. The backward repeats the first block without its last matmul, or only its
// attention.
TEST(Profile, CountsRecomputation) {
  const double weights = 4 * 16 * 16 + 3 * 16 * 24, attention = 2 * 10 * 5 * 16;
  const struct {
    Recompute recompute;
    int matmuls;
    double elements;
  } cases[] = {{Recompute::attention, 1, 3 * 16 * 16}, {Recompute::block, 3, weights - 16 * 24}};
  const auto backward_of = [](Recompute recompute, const char* name) {
    BenchCase one = small_case();
    one.recompute = recompute;
    Profile profile = profile_step(one);
    std::erase_if(profile.operations, [](const TimedOperation& any) { return any.phase != Phase::backward; });
    const std::vector<OperationSum> sums = sums_by_name(profile);
    return std::any_of(sums.begin(), sums.end(), [&](const OperationSum& sum) { return sum.name == name; })
               ? sum_of(sums, name)
               : OperationSum{};
  };
  EXPECT_EQ(backward_of(Recompute::none, "linear").calls, 0);
  for (const auto& [recompute, matmuls, elements] : cases) {
    const OperationSum linear = backward_of(recompute, "linear");
    EXPECT_EQ(linear.calls, 3 * matmuls) << name_of(recompute);
    EXPECT_EQ(linear.flops, 3 * 2 * 10 * elements) << name_of(recompute);
    EXPECT_EQ(backward_of(recompute, "attention").flops, 3 * attention) << name_of(recompute);
  }
}

TEST(Profile, OperationsFollowEachOtherInsideTheirSteps) {
  const Profile profile = profile_step(small_case());
  double last = 0;
  for (const TimedOperation& one : profile.operations) {
    EXPECT_GE(one.begin, last) << one.name;
    EXPECT_GE(one.seconds, 0) << one.name;
    last = one.begin + one.seconds;
  }
  EXPECT_LE(last, profile.steps.back().begin + profile.steps.back().seconds);
  double kinds = 0, phases = 0;
  for (const OperationSum& one : sums_by_kind(profile)) kinds += one.seconds;
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::update}) phases += seconds_of(profile, phase);
  EXPECT_NEAR(kinds, seconds_of(profile), 1e-9);
  EXPECT_NEAR(phases, seconds_of(profile), 1e-9);
  EXPECT_EQ(seconds_of(profile, Phase::update, OperationKind::matmul), 0);
}

TEST(Profile, TheTraceHasEveryStepPhaseAndOperation) {
  const NamedProfile named{"a case", profile_step(small_case())};
  const Json trace = trace_json({&named, 1});
  std::size_t operations = 0, phases = 0, steps = 0;
  for (const Json& event : trace.at("traceEvents").as_array()) {
    if (event.at("ph").as_string() != "X") continue;
    const std::int64_t track = event.at("tid").as_integer();
    ++(track == 1 ? steps : track == 2 ? phases : operations);
    EXPECT_GE(event.at("dur").as_number(), 0);
  }
  EXPECT_EQ(steps, 3u);
  EXPECT_EQ(phases, 9u);
  EXPECT_EQ(operations, named.profile.operations.size());
}

TEST(Profile, SumsMatmulsByMatrixOverAllLayers) {
  const Profile profile = profile_step(small_case());
  const std::vector<OperationSum> sums = sums_by_matrix(profile);
  EXPECT_EQ(sums.size(), 3u * 5) << "q+k+v, o, w1+w3, w2 and the unembedding, each forward and twice backward";
  EXPECT_EQ(sum_of(sums, "linear backward weight attention.q+k+v").calls, 3 * 2);
  EXPECT_EQ(sum_of(sums, "linear attention.o").flops, 3 * 2 * (2.0 * 10 * 16 * 16));
  double calls = 0, all = 0;
  for (const OperationSum& one : sums) calls += one.calls;
  for (const OperationSum& one : sums_by_name(profile)) all += one.kind == OperationKind::matmul ? one.calls : 0;
  EXPECT_EQ(calls, all);
}

TEST(Profile, OnACpuAnOperationHasTheTimeOfTheHost) {
  const Profile profile = profile_step(small_case());
  for (const TimedOperation& one : profile.operations) EXPECT_EQ(one.seconds, one.host_seconds) << one.name;
  EXPECT_TRUE(profile.records.empty());
  EXPECT_EQ(profile.device, Device::cpu);
}

Profile profile_with(const char* attention) {
  BenchCase one = small_case();
  one.attention = attention;
  one.execution.threads = 2;
  return profile_step(one);
}

TEST(Profile, AttentionHasItsPartsIfTheyAreSeparate) {
  const Profile profile = profile_with("standard");
  constexpr int kCalls = 3 * 2;  // 3 steps of 2 layers
  const std::map<std::string, std::map<std::string, int>> expected = {
      {"attention", {{"QK^T matmul", kCalls}, {"softmax", kCalls}, {"PV matmul", kCalls}}},
      {"attention backward",
       {{"dV matmul", kCalls},
        {"dP matmul", kCalls},
        {"softmax gradient", kCalls},
        {"dQ matmul", kCalls},
        {"dK matmul", kCalls}}}};
  const std::vector<OperationSum> operations = sums_by_name(profile);
  for (const auto& [operation, calls] : expected) {
    double seconds = 0, flops = 0;
    std::map<std::string, int> found;
    for (const OperationSum& scope : sums_by_scope(profile, operation)) {
      EXPECT_GT(scope.seconds, 0) << operation << " " << scope.name;
      EXPECT_EQ(scope.flops > 0, scope.name.ends_with("matmul")) << scope.name;
      found[scope.name] = scope.calls;
      seconds += scope.seconds;
      flops += scope.flops;
    }
    EXPECT_EQ(found, calls) << operation;
    EXPECT_LE(seconds, sum_of(operations, operation).seconds * (1 + 1e-9)) << operation;
    EXPECT_NEAR(flops, sum_of(operations, operation).flops, 1e-6) << operation;
  }
  EXPECT_TRUE(sums_by_scope(profile, "linear").empty());
  EXPECT_EQ(profile_sink, nullptr) << "the sink is removed after the profile";
}

TEST(Profile, PartsFollowEachOtherInsideTheirOperations) {
  const Profile profile = profile_with("standard");
  constexpr double kRounding = 1e-9;  // rounding error of differences between clock readings
  double last = 0;
  for (const TimedScope& scope : profile.scopes) {
    const TimedOperation& whole = profile.operations.at(scope.operation);
    EXPECT_GE(scope.begin + kRounding, std::max(last, whole.begin)) << scope.name;
    last = scope.begin + scope.seconds;
    EXPECT_LE(last, whole.begin + whole.seconds + kRounding) << scope.name;
  }
  const NamedProfile named{"a case", profile};
  std::size_t scopes = 0;
  const Json trace = trace_json({&named, 1});
  for (const Json& event : trace.at("traceEvents").as_array()) {
    if (event.at("ph").as_string() != "X" || event.at("tid").as_integer() != 4) continue;
    EXPECT_TRUE(event.at("args").at("operation").as_string().starts_with("attention"));
    ++scopes;
  }
  EXPECT_EQ(scopes, profile.scopes.size());
}

TEST(Profile, FusedAttentionHasNoParts) { EXPECT_TRUE(profile_with("flash2").scopes.empty()); }

TEST(Profile, RejectsCudaWithTheReasonIfThereIsNoGpu) {
  const std::string reason = kernel_trace_refusal();
  if (reason.empty()) GTEST_SKIP() << "kernels can be traced here";
  BenchCase one = small_case();
  one.execution.device = Device::cuda;
  try {
    profile_step(one);
    FAIL() << "a profile of a missing GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

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

// Returns a step with 10 s forward, 20 s backward and 10 s update. Attention takes 4 s of the forward and 8 s of the
// backward.
Profile step_on_cpu() {
  Profile profile;
  profile.steps = {{0, 40}};
  profile.operations = {operation("linear", OperationKind::matmul, Phase::forward, 5),
                        operation("attention", OperationKind::attention, Phase::forward, 4),
                        operation("rms_norm", OperationKind::norm, Phase::forward, 1),
                        operation("linear backward weight", OperationKind::matmul, Phase::backward, 12),
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

TEST(MatmulShare, PartsOfAttentionAreMatmulsOrTheRest) {
  Profile profile = step_on_cpu();
  profile.scopes = {{.name = "QK^T matmul", .kind = ScopeKind::matmul, .operation = 1, .seconds = 1.5},
                    {.name = "softmax", .kind = ScopeKind::other, .operation = 1, .seconds = 1},
                    {.name = "PV matmul", .kind = ScopeKind::matmul, .operation = 1, .seconds = 0.5},
                    {.name = "dQ matmul", .kind = ScopeKind::matmul, .operation = 4, .seconds = 3}};
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

// On a GPU, library kernels inside attention are its matmuls; Strobe's kernels, copies and memsets are not.
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
