// Tests the wrappers of the CUDA runtime on a GPU: device description, copies, a kernel, and failures as errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "device/device_info.h"
#include "device/gpu_allocator.h"
#include "device/gpu_buffer.h"
#include "device/gpu_facts.h"
#include "device/gpu_stream.h"
#include "strobe/error.h"

namespace strobe {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    inventory_ = gpu_inventory();
    if (inventory_.gpus.empty()) GTEST_SKIP() << inventory_.reason;
  }
  GpuInventory inventory_;
};

TEST_F(Gpu, IsDescribed) {
  EXPECT_GE(inventory_.driver_version, inventory_.runtime_version / 1000 * 1000);
  EXPECT_GT(inventory_.runtime_version, 0);
  for (const GpuInfo& gpu : inventory_.gpus) {
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GE(gpu.compute_major, 5);
    EXPECT_GE(gpu.multiprocessors, 1);
    EXPECT_GT(gpu.memory_bytes, std::size_t{1} << 28);
    EXPECT_LE(gpu.memory_free_bytes, gpu.memory_bytes);
    EXPECT_GT(gpu.clock_mhz, 0);
  }
  EXPECT_GT(inventory_.gpus[0].memory_free_bytes, 0u);
}

TEST_F(Gpu, BufferRoundTrip) {
  std::vector<std::uint32_t> sent(100003);
  std::iota(sent.begin(), sent.end(), 7u);
  GpuBuffer buffer(sent.size() * 4);
  buffer.copy_from_host(sent.data(), buffer.bytes());
  std::vector<std::uint32_t> received(sent.size());
  buffer.copy_to_host(received.data(), buffer.bytes());
  EXPECT_EQ(sent, received);
}

// One stream copies to the GPU, another copies back. An event orders them.
TEST_F(Gpu, PinnedMemoryRoundTripOnTwoStreams) {
  constexpr std::size_t kBytes = 4 * 1000003;
  const PinnedBuffer sent(kBytes), received(kBytes);
  EXPECT_EQ(sent.bytes(), kBytes);
  std::iota(sent.as<std::uint32_t>(), sent.as<std::uint32_t>() + kBytes / 4, 5u);
  std::fill_n(received.as<std::uint32_t>(), kBytes / 4, 0u);
  const GpuBuffer buffer(kBytes);
  const GpuStream to_gpu, from_gpu;
  GpuEvent arrived;
  to_gpu.copy(buffer.data(), sent.as<void>(), kBytes);
  arrived.record(to_gpu);
  from_gpu.wait_for(arrived);
  from_gpu.copy(received.as<void>(), buffer.data(), kBytes);
  from_gpu.synchronize();
  EXPECT_TRUE(
      std::equal(sent.as<std::uint32_t>(), sent.as<std::uint32_t>() + kBytes / 4, received.as<std::uint32_t>()));
  EXPECT_EQ(PinnedBuffer(0).as<void>(), nullptr);
}

TEST_F(Gpu, KernelFillsABuffer) {
  constexpr std::uint32_t kNan = 0x7fc00123u;
  GpuBuffer buffer(4 * 3000017);  // more words than threads in flight
  buffer.fill(kNan);
  std::vector<std::uint32_t> received(buffer.bytes() / 4);
  buffer.copy_to_host(received.data(), buffer.bytes());
  for (std::size_t i = 0; i < received.size(); ++i) ASSERT_EQ(received[i], kNan) << "word " << i;
}

TEST_F(Gpu, OutOfMemoryIsAnErrorAndLeavesTheGpuUsable) {
  const std::size_t bytes = inventory_.gpus[0].memory_bytes * 4;
  try {
    const GpuBuffer impossible(bytes);
    FAIL() << "got " << bytes << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
  }
  GpuBuffer buffer(64);
  EXPECT_NO_THROW(buffer.fill(1));
}

TEST_F(Gpu, CopyBeyondTheBufferIsRejected) {
  GpuBuffer buffer(8);
  char bytes[16] = {};
  EXPECT_THROW(buffer.copy_from_host(bytes, 9), Error);
  EXPECT_THROW(buffer.copy_to_host(bytes, 16), Error);
}

TEST_F(Gpu, AllocatorCountsAndIsObserved) {
  const AllocationStatistics before = gpu_allocator().statistics();
  std::vector<AllocationEvent> events;
  gpu_allocator().observe([&](const AllocationEvent& event) { events.push_back(event); });
  gpu_allocator().reset_peak();
  {
    const GpuBuffer a(1000), b(24);
    EXPECT_EQ(gpu_allocator().statistics().current, before.current + 1024);
  }
  gpu_allocator().observe({});
  EXPECT_EQ(gpu_allocator().statistics().current, before.current);
  EXPECT_EQ(gpu_allocator().statistics().peak, before.current + 1024);
  EXPECT_EQ(gpu_allocator().statistics().allocations, before.allocations + 2);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].bytes, 1000u);
  EXPECT_EQ(events[3].current, before.current);
}

TEST_F(Gpu, FactsEqualTheInventory) {
  const CurrentGpu gpu = current_gpu();
  const GpuInfo& info = inventory_.gpus.at(static_cast<std::size_t>(gpu.index));
  EXPECT_EQ(gpu.facts.compute_capability, 10 * info.compute_major + info.compute_minor);
  EXPECT_EQ(gpu.facts.multiprocessors, info.multiprocessors);
  const char* set = std::getenv("STROBE_CUDA_SHARED_KB");
  const std::string before = set ? set : "";
  EXPECT_EQ(gpu.facts.shared_bytes_per_block, limited_shared_bytes(info.shared_bytes_per_block, before.c_str()));
  ::setenv("STROBE_CUDA_SHARED_KB", "40", 1);
  EXPECT_EQ(current_gpu().facts.shared_bytes_per_block, 40u << 10);
  ::setenv("STROBE_CUDA_SHARED_KB", before.c_str(), 1);  // an empty value counts as unset
}

TEST_F(Gpu, StreamsEventsAndGraphs) {
  const GpuStream stream;
  GpuEvent before, after;
  GpuBuffer buffer(std::size_t{64} << 20);
  before.record(stream);
  buffer.fill(7, stream);
  after.record(stream);
  after.synchronize();
  EXPECT_GT(after.seconds_since(before), 0);
  EXPECT_LT(after.seconds_since(before), 1);
  const GpuGraph graph(stream, [&] { buffer.fill(9, stream); });
  std::vector<std::uint32_t> words(16);
  const auto read = [&] {
    stream.copy(words.data(), buffer.data(), 64);
    stream.synchronize();
    return words.back();
  };
  EXPECT_EQ(read(), 7u);
  graph.launch(stream);
  EXPECT_EQ(read(), 9u);
}

TEST(SharedMemoryLimit, IsRead) {
  EXPECT_EQ(limited_shared_bytes(227 << 10, nullptr), 227u << 10);
  EXPECT_EQ(limited_shared_bytes(227 << 10, ""), 227u << 10);
  EXPECT_EQ(limited_shared_bytes(227 << 10, "99"), 99u << 10);
  EXPECT_EQ(limited_shared_bytes(99 << 10, "163"), 99u << 10);
  for (const char* bad : {"0", "-1", "99k", "x", "99999999999"}) {
    EXPECT_THROW(limited_shared_bytes(1, bad), Error) << bad;
  }
}

// Without a GPU, allocating GPU memory must throw an error with the reason.
TEST(NoGpu, IsAnErrorWithAReason) {
  if (gpu_inventory().reason.empty()) GTEST_SKIP() << "this machine has a GPU";
  try {
    const GpuBuffer buffer(64);
    FAIL() << "allocated memory of a missing GPU";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("cuda: ", 0), 0u) << error.what();
  }
}

}  // namespace
}  // namespace strobe
