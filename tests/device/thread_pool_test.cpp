// Tests the thread pool: each body runs once, task order, exceptions, nesting, concurrent callers, the caller's
// executor, and a child process after fork().
#include "device/host/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace strobe {
namespace {

TEST(ThreadPool, AvailableCoresIsPositive) { EXPECT_GE(available_cores(), 1); }

TEST(ThreadPool, RunsEachIndexOnceOnItsOwnThread) {
  for (const int threads : {1, 2, 3, 8, 5, 1, 17}) {
    std::vector<std::thread::id> ids(static_cast<std::size_t>(threads));
    std::vector<int> runs(static_cast<std::size_t>(threads));
    parallel(threads, [&](int thread) {
      ids[static_cast<std::size_t>(thread)] = std::this_thread::get_id();
      ++runs[static_cast<std::size_t>(thread)];
    });
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), static_cast<std::size_t>(threads));
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    for (const int count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(ThreadPool, RunsManyCallsInARowAndAfterSleep) {
  std::int64_t sum = 0;
  for (int call = 0; call < 2000; ++call) {
    int parts[3] = {};
    parallel(3, [&](int thread) { parts[thread] = call + thread; });
    sum += parts[0] + parts[1] + parts[2];
    if (call % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until the workers sleep
  }
  EXPECT_EQ(sum, 3 * 2000 * 1999 / 2 + 3 * 2000);
}

TEST(ThreadPool, TasksStartInIncreasingOrder) {
  constexpr std::int64_t kTasks = 5000;
  std::vector<std::atomic<int>> runs(kTasks);
  // Each task waits until the previous one has started, so a wrong order would deadlock.
  std::atomic<std::int64_t> started{0};
  parallel_for(4, kTasks, [&](int thread, std::int64_t task) {
    ASSERT_GE(thread, 0);
    ASSERT_LT(thread, 4);
    while (started.load() != task) std::this_thread::yield();
    started.store(task + 1);
    ++runs[static_cast<std::size_t>(task)];
  });
  for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
}

// Each call has few tasks, so a worker often wakes when all tasks are done. The worker must not run a task of that call
// again, and must take part in later calls.
TEST(ThreadPool, RunsEveryTaskOnceInManyShortCalls) {
  std::vector<std::atomic<int>> runs(4);
  for (int call = 1; call <= 20000; ++call) {
    parallel_for(4, 4, [&, call](int, std::int64_t task) {
      ASSERT_EQ(runs[static_cast<std::size_t>(task)].exchange(call), call - 1) << "task " << task;
    });
    for (const auto& one : runs) ASSERT_EQ(one.load(), call);
    int bodies[4] = {};
    if (call % 100 == 0) {
      parallel(4, [&](int thread) { ++bodies[thread]; });
      for (const int count : bodies) ASSERT_EQ(count, 1) << "all four threads must take part after a short call";
    }
  }
}

TEST(ThreadPool, NoTasksMeanNoCalls) {
  int calls = 0;
  parallel_for(4, 0, [&](int, std::int64_t) { ++calls; });
  parallel_for(4, -3, [&](int, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

TEST(ThreadPool, ExceptionsReachTheCallerAfterAllEnded) {
  for (const int thrower : {0, 1, 3}) {
    std::atomic<int> ended{0};
    try {
      parallel(4, [&](int thread) {
        if (thread == thrower) throw std::runtime_error("body " + std::to_string(thread));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++ended;
      });
      FAIL() << "no exception from body " << thrower;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "body " + std::to_string(thrower));
      EXPECT_EQ(ended.load(), 3);
    }
  }
  int calls = 0;
  parallel(1, [&](int) { ++calls; });  // the pool still works
  std::atomic<int> after{0};
  parallel(4, [&](int) { ++after; });
  EXPECT_EQ(calls + after.load(), 5);
}

TEST(ThreadPool, ParallelForStopsAtAnException) {
  std::atomic<std::int64_t> runs{0};
  const auto body = [&](int, std::int64_t task) {
    ++runs;
    if (task == 10) throw std::runtime_error("task");
  };
  EXPECT_THROW(parallel_for(1, 100, body), std::runtime_error);
  EXPECT_EQ(runs.load(), 11);
  // Without the early stop, the 2^60 tasks would take years.
  EXPECT_THROW(parallel_for(2, std::int64_t{1} << 60, body), std::runtime_error);
}

TEST(ThreadPool, NestedCallsRunInOrderOnTheSameThread) {
  std::atomic<int> total{0};
  parallel(3, [&](int) {
    const auto self = std::this_thread::get_id();
    int expected = 0;
    parallel(4, [&](int thread) {
      EXPECT_EQ(thread, expected++);
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++total;
    });
  });
  EXPECT_EQ(total.load(), 12);
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int call = 0; call < 50; ++call) {
        std::atomic<int> bodies{0};
        parallel(3, [&](int) { ++bodies; });
        if (bodies != 3) ++wrong;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

int threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

TEST(ThreadPool, ConcurrentCallsShareTheWorkers) {
  constexpr int kCallers = 4;
  parallel(3, [](int) {});
  const int before = threads_of_process();
  std::atomic<int> most{0}, wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      for (int call = 0; call < 50; ++call) {
        int runs[3] = {};
        parallel(3, [&](int thread) {
          ++runs[thread];
          const int now = threads_of_process();
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
        });
        for (const int count : runs) wrong += count != 1;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(most, std::max(before, available_cores() + 1) + kCallers);
}

// Bodies may wait for bodies with a lower index. Three concurrent callers leave fewer workers than bodies.
TEST(ThreadPool, ConcurrentCallsWhoseBodiesWaitForEarlierOnesFinish) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([] {
      for (int call = 0; call < 50; ++call) {
        std::atomic<int> next{0};
        parallel(5, [&](int thread) {
          while (next.load() != thread) std::this_thread::yield();
          ++next;
        });
        ASSERT_EQ(next, 5);
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

// Runs each task on a new thread, or all in order on the caller.
struct TestExecutor {
  bool concurrent;
  int calls = 0, dropped = 0;

  static void run(void* context, int count, Executor::Task task, void* task_context) {
    TestExecutor& self = *static_cast<TestExecutor*>(context);
    ++self.calls;
    std::vector<std::thread> threads;
    for (int i = 0; i < count - self.dropped; ++i) {
      if (self.concurrent) {
        threads.emplace_back(task, task_context, i);
      } else {
        task(task_context, i);
      }
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST(ExecutorScope, RunsEveryBodyOnTheCallersExecutorInItsScope) {
  for (const bool concurrent : {false, true}) {
    TestExecutor own{concurrent};
    {
      const Executor executor{TestExecutor::run, &own};
      const ExecutorScope scope(executor);
      int runs[4] = {};
      parallel(4, [&](int thread) { ++runs[thread]; });
      for (const int count : runs) EXPECT_EQ(count, 1);
      std::atomic<int> tasks{0};
      parallel_for(4, 100, [&](int, std::int64_t) { ++tasks; });
      EXPECT_EQ(tasks, 100);
      EXPECT_EQ(own.calls, 2);
      EXPECT_THROW(parallel(2,
                            [](int thread) {
                              if (thread == 1) throw std::runtime_error("body");
                            }),
                   std::runtime_error);
    }
    parallel(4, [](int) {});
    EXPECT_EQ(own.calls, 3);
  }
}

TEST(ExecutorScope, ReportsAnExecutorThatDropsTasks) {
  TestExecutor own{.concurrent = false, .dropped = 1};
  const Executor executor{TestExecutor::run, &own};
  const ExecutorScope scope(executor);
  try {
    parallel(4, [](int) {});
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "executor: ran 3 of 4 tasks");
  }
}

// ThreadSanitizer does not support threads that start after a fork of a multithreaded process.
#if !defined(__SANITIZE_THREAD__)
TEST(ThreadPool, ServesAChildAfterFork) {
  parallel(3, [](int) {});  // the child lacks the parent's workers
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> bodies{0};
    parallel(3, [&](int) { ++bodies; });
    _exit(bodies == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace strobe
