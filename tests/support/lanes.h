// Runs a body for many cases on all cores of the host, because the float64 oracle is the slow part of a GPU test. Each
// thread has its own stream and GPU memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/host/thread_pool.h"
#include "support/gpu.h"

namespace strobe::test {

// Calls body(lane, index) for each index in [0, count). The body returns a failure message, or "". Returns all
// messages.
template <class Body>
std::vector<std::string> over_lanes(std::int64_t count, Body&& body) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    try {
      GpuLane lane;
      for (std::int64_t index; (index = next.fetch_add(1)) < count;) {
        std::string text;
        try {
          text = body(lane, index);
        } catch (const std::exception& error) {
          text = std::string("threw: ") + error.what();
        }
        if (text.empty()) continue;
        const std::lock_guard lock(mutex);
        failures.push_back(std::move(text));
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      failures.push_back(std::string("no lane: ") + error.what());
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(available_cores(), count); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return failures;
}

}  // namespace strobe::test
