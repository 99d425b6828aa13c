// Tests the profile of a step on a GPU: every kernel belongs to an operation, and every operation has a kernel.
#include <gtest/gtest.h>

#include <set>

#include "core/json.h"
#include "lm/profile/profile.h"
#include "lm/profile/trace.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

BenchCase traced_case(Precision precision, Device device = Device::cuda) {
  return {.shape = {.d_model = 128, .d_ff = 256, .layers = 2, .heads = 2, .vocabulary = 96, .context = 64},
          .batch = 2,
          .precision = precision,
          .warmup = 1,
          .steps = 3,
          .execution = {.device = device}};
}

class GpuProfile : public test::GpuTest {
 protected:
  void SetUp() override {
    test::GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string reason = kernel_trace_refusal(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(GpuProfile, EveryKernelHasAnOperationAndEveryOperationAKernel) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Profile profile = profile_step(traced_case(precision));
    ASSERT_EQ(profile.steps.size(), 3u);
    for (const TimedOperation& one : profile.operations) {
      EXPECT_GT(one.seconds, 0) << name_of(precision) << ": " << one.name << " " << one.of << " has no kernel";
      EXPECT_GE(one.host_seconds, 0);
    }
    for (const GpuRecord& record : profile.records) {
      EXPECT_GT(record.launcher, 0u) << name_of(precision) << ": " << record.name << " belongs to no operation";
    }
    const std::size_t on_cpu = profile_step(traced_case(precision, Device::cpu)).operations.size();
    EXPECT_EQ(profile.operations.size(), on_cpu + 2 * profile.steps.size())
        << "the operations of the CPU, and two copies per step: tokens in, losses out";
  }
}

TEST_F(GpuProfile, SumsAreTheTotal) {
  const Profile profile = profile_step(traced_case(Precision::bf16));
  double kinds = 0, phases = 0, kernels = 0;
  for (const OperationSum& sum : sums_by_kind(profile)) kinds += sum.seconds;
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::update}) phases += seconds_of(profile, phase);
  for (const KernelSum& sum : sums_by_kernel(profile)) kernels += sum.seconds;
  const double all = record_seconds(profile);
  EXPECT_GT(all, 0);
  EXPECT_NEAR(kinds + outside_seconds(profile), all, 1e-9 * all);
  EXPECT_NEAR(phases + outside_seconds(profile), all, 1e-9 * all);
  EXPECT_NEAR(kernels, all, 1e-9 * all);
  EXPECT_LE(busy_seconds(profile), all * (1 + 1e-9));
  EXPECT_GT(profile.plain_seconds, 0);
  EXPECT_GT(profile.direct_seconds, 0);
}

TEST_F(GpuProfile, TheTraceParsesAndHasEveryRecord) {
  const NamedProfile named{"a case", profile_step(traced_case(Precision::bf16))};
  std::set<int> streams;
  for (const GpuRecord& record : named.profile.records) streams.insert(record.stream);
  const Json trace = Json::parse(trace_json({&named, 1}).dump());
  std::size_t records = 0, tracks = 0;
  for (const Json& event : trace.at("traceEvents").as_array()) {
    if (event.at("name").as_string() == "thread_name") ++tracks;
    if (event.at("ph").as_string() == "X" && event.at("tid").as_integer() > 3) ++records;
  }
  EXPECT_EQ(tracks, 3 + streams.size());
  EXPECT_EQ(records, named.profile.records.size());
}

TEST_F(GpuProfile, DirectLaunchesGiveTheBitsOfAGraph) {
  const BenchCase one = traced_case(Precision::bf16);
  PassRun replayed(one), direct(one);
  direct.model().set_launches(Launches::direct);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(replayed.run(), direct.run()) << "step " << step + 1;
}

}  // namespace
}  // namespace strobe::lm
