// Tests the attribution of GPU kernels to operations of a training step, and the sums over them, with constructed
// records.
#include "lm/profile/profile.h"

#include <gtest/gtest.h>

#include <map>

#include "core/json.h"
#include "lm/profile/trace.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

constexpr double kMicro = 1e-6, kBegin = 1000;  // seconds; kBegin: start of the first step
constexpr const char* kMatmulKernel = "void cublas::product<float, (int)3>(float const*, float*)";

TimedOperation operation(const char* name, OperationKind kind, Phase phase) {
  TimedOperation one;
  one.name = name;
  one.of = "layers.0";
  one.kind = kind;
  one.phase = phase;
  one.host_seconds = 2 * kMicro;
  return one;
}

GpuRecord record(const char* name, std::uint64_t launcher, int stream, double begin, double microseconds) {
  return {.name = name,
          .launcher = launcher,
          .stream = stream,
          .begin = kBegin + begin * kMicro,
          .seconds = microseconds * kMicro};
}

// Returns the profile of one step. A linear operation has two kernels, attention has a matmul and a softmax that
// overlap on two streams, and the update has one kernel. A copy belongs to no operation.
Profile made_up() {
  Profile profile;
  profile.device = Device::cuda;
  profile.steps = {{0, 100 * kMicro}};
  profile.operations = {operation("linear", OperationKind::matmul, Phase::forward),
                        operation("attention", OperationKind::attention, Phase::forward),
                        operation("adamw", OperationKind::optimizer, Phase::update)};
  GpuRecord copy = record("copy host to GPU", 0, 7, 90, 4);
  copy.kind = GpuRecord::Kind::copy;
  copy.bytes = 4096;
  attribute(profile,
            {record(kMatmulKernel, 1, 7, 10, 20), record("reduce", 1, 7, 30, 5), record(kMatmulKernel, 2, 7, 40, 12),
             record("softmax", 2, 13, 45, 8), record("adamw_kernel", 3, 7, 60, 30), copy},
            kBegin);
  return profile;
}

TEST(ProfileKernels, EachOperationHasTheTimeOfItsRecords) {
  const Profile profile = made_up();
  ASSERT_EQ(profile.records.size(), 6u);
  EXPECT_NEAR(profile.operations[0].seconds, 25 * kMicro, 1e-12);
  EXPECT_NEAR(profile.operations[1].seconds, 20 * kMicro, 1e-12);
  EXPECT_NEAR(profile.operations[2].seconds, 30 * kMicro, 1e-12);
  EXPECT_NEAR(profile.records[0].begin, 10 * kMicro, 1e-9) << "times count from the start of the first step";
  double kinds = 0;
  for (const OperationSum& sum : sums_by_kind(profile)) kinds += sum.seconds;
  EXPECT_NEAR(kinds, 75 * kMicro, 1e-12);
  EXPECT_NEAR(outside_seconds(profile), 4 * kMicro, 1e-12);
  EXPECT_NEAR(record_seconds(profile), kinds + outside_seconds(profile), 1e-12);
}

TEST(ProfileKernels, OverlappingKernelsCountOnceAsBusyTime) {
  // Busy intervals in us: 10-35, 40-53 (two kernels that overlap), 60-90 and 90-94.
  EXPECT_NEAR(busy_seconds(made_up()), (25 + 13 + 34) * kMicro, 1e-9);
  Profile inside;
  attribute(inside, {record("long", 0, 1, 0, 50), record("short", 0, 2, 10, 5), record("later", 0, 2, 49, 3)}, kBegin);
  EXPECT_NEAR(busy_seconds(inside), 52 * kMicro, 1e-9);
  EXPECT_EQ(busy_seconds(Profile{}), 0);
}

TEST(ProfileKernels, AreSummedByNameAndSortedByTime) {
  const std::vector<KernelSum> sums = sums_by_kernel(made_up());
  ASSERT_EQ(sums.size(), 5u);
  EXPECT_EQ(sums[0].name, kMatmulKernel);
  EXPECT_EQ(sums[1].name, "adamw_kernel");
  EXPECT_EQ(sums[0].calls, 2);
  EXPECT_NEAR(sums[0].seconds, 32 * kMicro, 1e-12);
  EXPECT_EQ(sums[0].operations, (std::vector<std::string>{"linear", "attention"}));
  const std::vector<KernelSum> attention = sums_by_kernel(made_up(), "attention");
  ASSERT_EQ(attention.size(), 2u);
  EXPECT_EQ(attention[0].name, kMatmulKernel);
  EXPECT_EQ(attention[0].calls, 1);
  EXPECT_EQ(attention[1].name, "softmax");
}

TEST(ProfileKernels, ALauncherWithoutAnOperationIsRejected) {
  Profile profile = made_up();
  EXPECT_THROW(attribute(profile, {record("stray", 4, 7, 0, 1)}, kBegin), Error);
}

TEST(ProfileKernels, TheTraceHasATrackPerStreamAndThreeForTheHost) {
  const NamedProfile named{"a case", made_up()};
  const Json trace = Json::parse(trace_json({&named, 1}).dump());
  std::map<std::string, std::int64_t> tracks;
  std::map<std::int64_t, int> spans;
  for (const Json& event : trace.at("traceEvents").as_array()) {
    const std::int64_t track = event.at("tid").as_integer();
    if (event.at("name").as_string() == "thread_name") tracks[event.at("args").at("name").as_string()] = track;
    if (event.at("ph").as_string() == "X") ++spans[track];
    const Json* const arguments = event.find("args");
    if (event.at("name").as_string() != "softmax") continue;
    EXPECT_EQ(arguments->at("operation").as_string(), "attention");
    EXPECT_EQ(arguments->at("phase").as_string(), "forward");
    EXPECT_EQ(event.at("cat").as_string(), "attention");
    EXPECT_NEAR(event.at("ts").as_number(), 45, 1e-3) << "microseconds";
    EXPECT_NEAR(event.at("dur").as_number(), 8, 1e-6);
  }
  ASSERT_EQ(tracks.size(), 5u);
  EXPECT_EQ(spans.at(tracks.at("GPU stream 7")), 5);
  EXPECT_EQ(spans.at(tracks.at("GPU stream 13")), 1);
  EXPECT_EQ(spans.at(tracks.at("operations (host, launching)")), 3);
  EXPECT_EQ(spans.at(tracks.at("phases (host, launching)")), 2);
}

TEST(ProfileKernels, NamesAreShortened) {
  EXPECT_EQ(short_kernel_name(kMatmulKernel), "product<float, (int)3>");
  EXPECT_EQ(short_kernel_name("void strobe::(anonymous namespace)::norm<4>(strobe::Row<int>, int)"), "norm<4>");
  EXPECT_EQ(short_kernel_name("ns::Outer<a::b>::run(int (*)(int))"), "run");
  EXPECT_EQ(short_kernel_name("sm90_xmma_gemm_bf16"), "sm90_xmma_gemm_bf16");
  EXPECT_EQ(short_kernel_name("void plain<x::y>()"), "plain<x::y>");
  EXPECT_EQ(short_kernel_name("copy host to GPU"), "copy host to GPU");
  EXPECT_EQ(short_kernel_name("a_very_long_name", 10), "a_very_...");
}

}  // namespace
}  // namespace strobe::lm
