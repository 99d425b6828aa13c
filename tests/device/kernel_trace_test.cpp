// Tests traces of GPU kernels and copies. Without a GPU, tests the reason why traces are unavailable.
#include "device/kernel_trace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "device/gpu_buffer.h"
#include "device/gpu_facts.h"
#include "device/gpu_range.h"
#include "device/gpu_stream.h"
#include "strobe/error.h"

namespace strobe {
namespace {

TEST(KernelTrace, IsRejectedWithTheReasonIfThereIsNoGpu) {
  const std::string reason = current_gpu().reason;
  if (reason.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(kernel_trace_refusal(), reason);
  try {
    KernelTrace trace;
    FAIL() << "a trace of a missing GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(std::string(error.what()), "kernel trace: " + reason);
  }
}

TEST(GpuRanges, NeedNoProfiler) {
  const GpuRange outer("outer");
  const GpuRange inner(std::string("inner"));
}

class GpuKernelTrace : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = current_gpu().reason; !reason.empty()) GTEST_SKIP() << reason;
    if (const std::string reason = kernel_trace_refusal(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(GpuKernelTrace, RecordsKernelTimeAndLaunch) {
  constexpr std::size_t kBytes = 4 << 20;
  GpuBuffer buffer(kBytes);
  const PinnedBuffer host(kBytes);
  const GpuStream first, second;
  buffer.fill(0, first);  // loads the kernel before the trace starts
  KernelTrace trace;
  trace.enter(7);
  buffer.fill(1, first);
  trace.enter(9);
  first.clear(buffer.data(), kBytes);
  trace.leave();
  buffer.fill(2, first);
  trace.leave();
  first.synchronize();
  second.copy(host.as<void>(), buffer.data(), kBytes);
  second.synchronize();
  const std::vector<GpuRecord> records = trace.finish();
  ASSERT_EQ(records.size(), 4u);
  const std::uint64_t launchers[] = {7, 9, 7, 0};
  const GpuRecord::Kind kinds[] = {GpuRecord::Kind::kernel, GpuRecord::Kind::clear, GpuRecord::Kind::kernel,
                                   GpuRecord::Kind::copy};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(records[i].launcher, launchers[i]) << i;
    EXPECT_EQ(records[i].kind, kinds[i]) << i;
    EXPECT_GT(records[i].seconds, 0) << i;
    if (i > 0) {
      EXPECT_GE(records[i].begin, records[i - 1].begin + records[i - 1].seconds) << i;
    }
  }
  EXPECT_EQ(records[0].name, records[2].name);
  EXPECT_EQ(records[0].name.find("_Z"), std::string::npos) << records[0].name;
  EXPECT_EQ(records[1].bytes, kBytes);
  EXPECT_EQ(records[3].bytes, kBytes);
  EXPECT_EQ(records[3].name, "copy GPU to host");
  EXPECT_EQ(records[0].stream, records[1].stream);
  EXPECT_NE(records[0].stream, records[3].stream);
}

TEST_F(GpuKernelTrace, IsOneAtATimeAndHasNoRecordsOfThePreviousOne) {
  GpuBuffer buffer(1 << 16);
  const GpuStream stream;
  {
    KernelTrace dropped;
    buffer.fill(1, stream);
    EXPECT_THROW(KernelTrace(), Error);
  }
  buffer.fill(2, stream);
  KernelTrace trace;
  EXPECT_TRUE(trace.finish().empty());
  EXPECT_THROW(trace.finish(), Error);
  KernelTrace next;
  next.enter(3);
  buffer.fill(4, stream);
  next.leave();
  const std::vector<GpuRecord> records = next.finish();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].launcher, 3u);
}

}  // namespace
}  // namespace strobe
