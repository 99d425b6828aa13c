// Interfaces to the caller's own threads and memory, for calls on the CPU. By default the library uses its worker
// threads, which all calls of the process share, and aligned_alloc.
#pragma once

#include <cstddef>

namespace strobe {

// run(context, count, task, task_context) must call task(task_context, i) once for each i in [0, count) and return when
// all calls have ended. The calls may run concurrently and on any thread. They must start in increasing order of i,
// because a task may wait for an earlier one. A task never throws. run may throw before it starts the first task.
//
//   void run(void* pool, int count, void (*task)(void*, int), void* task_context) {
//     static_cast<MyPool*>(pool)->for_each_index(count, [=](int i) { task(task_context, i); });
//   }
//   strobe::forward(attention, outputs, {.executor = {.run = run, .context = &my_pool}});
struct Executor {
  using Task = void (*)(void* task_context, int index);
  void (*run)(void* context, int count, Task task, void* task_context) = nullptr;
  void* context = nullptr;

  explicit operator bool() const { return run != nullptr; }
};

// Provides the workspace of calls without Execution::workspace. allocate must return memory aligned to 64 bytes, or
// null if there is none. deallocate is called with the same pointer and size before the call returns. Both are called
// on the calling thread.
struct Allocator {
  void* (*allocate)(void* context, std::size_t bytes) = nullptr;
  void (*deallocate)(void* context, void* pointer, std::size_t bytes) = nullptr;
  void* context = nullptr;

  explicit operator bool() const { return allocate != nullptr; }
};

}  // namespace strobe
