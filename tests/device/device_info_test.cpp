// Tests device/device_info: the description of this machine is plausible in builds with and without CUDA.
#include "device/device_info.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(DeviceInfo, DescribesTheCpu) {
  const CpuInfo info = cpu_info();
  EXPECT_FALSE(info.model.empty());
  EXPECT_FALSE(info.architecture.empty());
  EXPECT_GE(info.cores, 1);
  EXPECT_GE(info.cores_online, info.cores);
  EXPECT_GT(info.memory_bytes, std::size_t{1} << 26);
  for (const CacheInfo& cache : info.caches) {
    EXPECT_GE(cache.level, 1);
    EXPECT_GE(cache.bytes, 1024u);
    EXPECT_GE(cache.shared_by, 1);
    EXPECT_TRUE(cache.type == "Data" || cache.type == "Instruction" || cache.type == "Unified") << cache.type;
  }
}

TEST(DeviceInfo, ListsGpusOrGivesAReason) {
  const GpuInventory inventory = gpu_inventory();
  EXPECT_EQ(inventory.gpus.empty(), !inventory.reason.empty()) << inventory.reason;
  if (!inventory.compiled_in) {
    EXPECT_TRUE(inventory.gpus.empty());
  }
}

}  // namespace
}  // namespace strobe
