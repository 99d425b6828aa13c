#include "ops/swiglu.h"

#include <algorithm>

#include "device/host/thread_pool.h"
#include "ops/cpu/sum.h"
#include "ops/cpu/swiglu.h"

namespace strobe::ops {

namespace {

constexpr std::int64_t kElements = 4096;  // of a task

}  // namespace

void swiglu(const Place& place, DType dtype, std::int64_t count, const void* a, const void* b, void* y) {
  expect_cpu(place, "SwiGLU");
  with_type(dtype, [&]<class T>(T*) {
    parallel_for(place.threads, tasks_of(count, kElements), [&](int, std::int64_t task) {
      const std::int64_t at = task * kElements;
      swiglu_range(static_cast<const T*>(a) + at, static_cast<const T*>(b) + at, static_cast<T*>(y) + at,
                   std::min(kElements, count - at));
    });
  });
}

void swiglu_backward(const Place& place, DType dtype, std::int64_t count, const void* a, const void* b, const void* dy,
                     void* da, void* db) {
  expect_cpu(place, "SwiGLU's gradient");
  with_type(dtype, [&]<class T>(T*) {
    parallel_for(place.threads, tasks_of(count, kElements), [&](int, std::int64_t task) {
      const std::int64_t at = task * kElements;
      swiglu_range_backward(static_cast<const T*>(a) + at, static_cast<const T*>(b) + at,
                            static_cast<const T*>(dy) + at, static_cast<T*>(da) + at, static_cast<T*>(db) + at,
                            std::min(kElements, count - at));
    });
  });
}

}  // namespace strobe::ops
