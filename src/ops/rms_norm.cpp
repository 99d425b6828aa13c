#include "ops/rms_norm.h"

#include <algorithm>

#include "device/host/thread_pool.h"
#include "ops/cpu/rms_norm.h"

namespace strobe::ops {

namespace {

constexpr std::int64_t kRows = 16, kColumns = 64;  // of a task

}  // namespace

void rms_norm(const Place& place, const RmsNorm& norm, const void* x, const float* weight, void* y, float* inverse) {
  expect_cpu(place, "RMSNorm");
  with_type(norm.dtype, [&]<class T>(T*) {
    parallel_for(place.threads, tasks_of(norm.rows, kRows), [&](int, std::int64_t task) {
      for (std::int64_t r = task * kRows; r < std::min(norm.rows, (task + 1) * kRows); ++r) {
        const std::int64_t at = r * norm.width;
        inverse[r] = rms_norm_row(static_cast<const T*>(x) + at, weight, static_cast<T*>(y) + at, norm.width, norm.eps);
      }
    });
  });
}

void rms_norm_backward(const Place& place, const RmsNorm& norm, const void* x, const float* weight,
                       const float* inverse, const void* dy, void* dx, Into into, float* dweight) {
  expect_cpu(place, "RMSNorm's gradient");
  with_type(norm.dtype, [&]<class T>(T*) {
    const auto* const from = static_cast<const T*>(x);
    const auto* const gradient = static_cast<const T*>(dy);
    parallel_for(place.threads, tasks_of(norm.width, kColumns), [&](int, std::int64_t task) {
      rms_norm_weight_backward(from, inverse, gradient, dweight, norm.rows, norm.width, task * kColumns,
                               std::min(norm.width, (task + 1) * kColumns));
    });
    parallel_for(place.threads, tasks_of(norm.rows, kRows), [&](int, std::int64_t task) {
      for (std::int64_t r = task * kRows; r < std::min(norm.rows, (task + 1) * kRows); ++r) {
        const std::int64_t at = r * norm.width;
        rms_norm_row_backward(from + at, weight, inverse[r], gradient + at, static_cast<T*>(dx) + at, into, norm.width);
      }
    });
  });
}

}  // namespace strobe::ops
