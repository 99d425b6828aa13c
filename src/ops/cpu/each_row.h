// Distributes rows over threads. A task has several rows if rows are short, because scheduling each row separately
// would cost more than the work. Used by the CPU operations.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/host/thread_pool.h"
#include "ops/cpu/sum.h"

namespace strobe::ops {

// Calls body(row) for each row of `width` elements. Rows must be independent.
template <class Body>
void each_row(int threads, std::int64_t rows, std::int64_t width, Body&& body) {
  constexpr std::int64_t kElements = 8192;  // elements per task, which takes a few microseconds
  const std::int64_t share = std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, width));
  parallel_for(threads, tasks_of(rows, share), [&](int, std::int64_t task) {
    for (std::int64_t row = task * share; row < std::min(rows, (task + 1) * share); ++row) body(row);
  });
}

}  // namespace strobe::ops
