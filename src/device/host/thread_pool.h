// Threads of the CPU path: workers that live as long as the process, woken for each call. Kernels call parallel_for
// (tasks handed out by a counter) or parallel (one body per thread). Bodies run in the IEEE default floating-point
// mode, on the caller's thread too.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "device/host/float_mode.h"

namespace strobe {

// Cores that this process may run on (its affinity mask), at least 1.
int available_cores();

namespace detail {
using ParallelBody = void (*)(void* context, int thread);

// Workers that have not begun when the caller's own body has ended. On a machine that others use too a worker may have
// to wait for a core for longer than the whole call takes.
enum class Late { awaited, dismissed };

void run_parallel(int threads, Late late, ParallelBody body, void* context);

template <class F>
void parallel(int threads, Late late, F& body) {
  if (threads <= 1) {
    const DefaultFloatMode mode;
    return static_cast<void>(body(0));
  }
  run_parallel(
      threads, late, [](void* context, int thread) { (*static_cast<F*>(context))(thread); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}
}  // namespace detail

// The most threads that a call may ask for.
inline constexpr int kMaxThreads = 1024;

// Runs body(0) on the caller and body(1) .. body(threads - 1) on workers, and returns when all have ended. The first
// exception of any of them is rethrown then.
// From inside another body the calls run one after the other on the caller, in order of their index: so a body may
// wait for what one of a lower index does, never for one of a higher index.
// Two threads of the user's program may call this at once: the second gets threads of its own for the call.
template <class F>
void parallel(int threads, F&& body) {
  detail::parallel(threads, detail::Late::awaited, body);
}

// body(thread, task) once for each task in [0, tasks). Tasks are started strictly in increasing order, so a task may
// wait for an earlier one, whatever the number of threads. After an exception no further task is started.
template <class F>
void parallel_for(int threads, std::int64_t tasks, F&& body) {
  if (tasks <= 0) return;
  struct alignas(64) Counter {
    std::atomic<std::int64_t> next{0};
  } counter;
  const auto take_tasks = [&](int thread) {
    try {
      for (std::int64_t task; (task = counter.next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
        body(thread, task);
      }
    } catch (...) {
      counter.next.store(tasks, std::memory_order_relaxed);
      throw;
    }
  };
  // When the caller finds no task left, a worker that has not begun would find none either.
  detail::parallel(static_cast<int>(std::min<std::int64_t>(threads, tasks)), detail::Late::dismissed, take_tasks);
}

}  // namespace strobe
