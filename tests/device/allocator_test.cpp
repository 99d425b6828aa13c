// Tests the counting allocator: alignment, counters, peak, observer, and failed allocations.
#include "device/host/allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "strobe/error.h"

namespace strobe {
namespace {

TEST(Allocator, AlignsAndCounts) {
  CountingAllocator allocator;
  {
    const Buffer a(100, allocator);
    const Buffer b(1, allocator);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % CountingAllocator::kAlignment, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % CountingAllocator::kAlignment, 0u);
    std::memset(a.data(), 1, a.bytes());
    EXPECT_EQ(allocator.statistics().current, 101u);
    EXPECT_EQ(allocator.statistics().allocations, 2u);
  }
  EXPECT_EQ(allocator.statistics().current, 0u);
  EXPECT_EQ(allocator.statistics().peak, 101u);
}

TEST(Allocator, PeakIsReset) {
  CountingAllocator allocator;
  const Buffer held(10, allocator);
  { const Buffer more(1000, allocator); }
  EXPECT_EQ(allocator.statistics().peak, 1010u);
  allocator.reset_peak();
  EXPECT_EQ(allocator.statistics().peak, 10u);
}

TEST(Allocator, ZeroBytesAllocateNothing) {
  CountingAllocator allocator;
  const Buffer none(0, allocator);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(allocator.statistics().allocations, 0u);
}

TEST(Allocator, BuffersCanBeMoved) {
  CountingAllocator allocator;
  Buffer a(64, allocator);
  void* const data = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(b.data(), data);
  b = Buffer(128, allocator);
  EXPECT_EQ(allocator.statistics().current, 128u);
  b = Buffer();
  EXPECT_EQ(allocator.statistics().current, 0u);
}

TEST(Allocator, ObserverSeesEveryEvent) {
  CountingAllocator allocator;
  std::vector<AllocationEvent> events;
  allocator.observe([&](const AllocationEvent& event) { events.push_back(event); });
  const void* data = nullptr;
  {
    const Buffer buffer(32, allocator, "a tag");
    data = buffer.data();
  }
  allocator.observe({});
  { const Buffer unseen(8, allocator); }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, AllocationEvent::Kind::allocate);
  EXPECT_STREQ(events[0].tag, "a tag");
  EXPECT_EQ(events[1].kind, AllocationEvent::Kind::free);
  for (const AllocationEvent& event : events) {
    EXPECT_EQ(event.bytes, 32u);
    EXPECT_EQ(event.pointer, data);
  }
  EXPECT_EQ(events[0].current, 32u);
  EXPECT_EQ(events[1].current, 0u);
}

TEST(Allocator, OutOfMemoryIsAnErrorWithTheBytes) {
  CountingAllocator allocator;
  const Buffer held(7, allocator);
  try {
    const Buffer impossible(std::size_t{1} << 62, allocator);
    FAIL() << "got " << impossible.bytes() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("4611686018427387904"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("7 bytes in use"), std::string::npos) << error.what();
  }
  EXPECT_EQ(allocator.statistics().current, 7u);
  EXPECT_EQ(allocator.statistics().peak, 7u);
}

TEST(Allocator, ThreadsShareIt) {
  CountingAllocator allocator;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 1; i <= 200; ++i) {
        const Buffer buffer(i, allocator);
        std::memset(buffer.data(), 0, i);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(allocator.statistics().current, 0u);
  EXPECT_EQ(allocator.statistics().allocations, 800u);
  EXPECT_GE(allocator.statistics().peak, 200u);
  EXPECT_LE(allocator.statistics().peak, 800u);
}

}  // namespace
}  // namespace strobe
