// Worker threads for CPU code. They live as long as the process and wake up for each call. Kernels call parallel_for()
// (tasks from an atomic counter) or parallel() (one body per thread). Bodies run in the IEEE default floating-point
// mode, also on the caller's thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "device/host/float_mode.h"
#include "strobe/executor.h"

namespace strobe {

// Returns the number of cores on which this process may run (its affinity mask), at least 1.
int available_cores();

namespace detail {
using ParallelBody = void (*)(void* context, int thread);

// Selects what happens to workers that have not started their body when the caller's body ends. awaited: the call waits
// for them. dismissed: the call returns, and their bodies never run. This saves time on a shared machine, where a
// worker may wait for a core longer than the call takes.
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

// Maximum number of threads per call.
inline constexpr int kMaxThreads = 1024;

// Makes parallel() and parallel_for() on this thread use `executor` until the end of the scope. An empty executor has
// no effect.
class ExecutorScope {
 public:
  explicit ExecutorScope(const Executor& executor);
  ~ExecutorScope();
  ExecutorScope(const ExecutorScope&) = delete;
  ExecutorScope& operator=(const ExecutorScope&) = delete;

 private:
  const Executor* before_;
};

// Runs body(0) on the caller and body(1) .. body(threads - 1) on idle workers. When all have ended, it rethrows the
// first exception or returns. A nested call runs its bodies on the caller in order of their index, up to the first
// exception. A body may therefore wait for a body of a lower index, never for one of a higher index. Thread-safe.
// Concurrent calls share the workers: bodies for which no worker is idle run on the caller, after body 0.
template <class F>
void parallel(int threads, F&& body) {
  detail::parallel(threads, detail::Late::awaited, body);
}

// Calls body(thread, task) once for each task in [0, tasks). Tasks start strictly in increasing order, so a task may
// wait for an earlier one with any number of threads. After an exception no further task starts.
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
  // Late workers are dismissed, because once the caller finds no task left, they would find none either.
  detail::parallel(static_cast<int>(std::min<std::int64_t>(threads, tasks)), detail::Late::dismissed, take_tasks);
}

}  // namespace strobe
