// The worker threads behind parallel(). One job at a time. A worker spins briefly after each job, because the next call
// is often close, and then sleeps. The pool is built at the first use and again after fork().
#include "device/host/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/fail.h"

namespace strobe {

namespace {

thread_local bool inside_parallel = false;

struct Inside {
  Inside() { inside_parallel = true; }
  ~Inside() { inside_parallel = false; }
};

// One call of parallel(): its function and its first exception.
struct Job {
  detail::ParallelBody body;
  void* context;
  std::atomic<bool> failed{false};
  std::exception_ptr error{};  // written by the thread that sets `failed`, read after every body has ended

  void run(int thread) noexcept {
    const Inside inside;
    const DefaultFloatMode mode;
    try {
      body(context, thread);
    } catch (...) {
      if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
    }
  }
};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // pauses for tens of cycles; `yield` is a no-op on most Arm cores
#endif
}

// Waits until done() holds: polls for about 30 us, then calls sleep(), which may wake early.
template <class Done, class Sleep>
void wait_for(bool spin, Done done, Sleep sleep) {
  if (spin) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
    do {
      for (int i = 0; i < 32; ++i) {
        if (done()) return;
        relax();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  while (!done()) sleep();
}

// Starts a thread with all signals blocked: signals belong to the program's threads.
template <class F>
std::thread start_thread(int index, int threads, F&& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::forward<F>(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    fail(ErrorCode::runtime, "threads: cannot start thread {} of {}: {}", index, threads, error.what());
  }
}

class ThreadPool {
 public:
  ThreadPool() : cores_(available_cores()) {}

  ~ThreadPool() {
    ending_.store(true, std::memory_order_relaxed);
    for (auto& worker : workers_) wake(*worker, nullptr);
    for (auto& worker : workers_) worker->thread.join();
  }

  std::mutex& busy() { return busy_; }

  // The caller holds busy().
  void run(int threads, detail::Late late, Job& job) {
    grow(threads);
    const bool spin = threads <= cores_;
    spin_.store(spin, std::memory_order_relaxed);
    pending_.store(threads - 1, std::memory_order_relaxed);
    for (int i = 1; i < threads; ++i) wake(*workers_[static_cast<std::size_t>(i - 1)], &job);
    job.run(0);
    if (late == detail::Late::dismissed) dismiss(threads);
    int left = 0;
    wait_for(
        spin, [&] { return (left = pending_.load(std::memory_order_acquire)) == 0; },
        [&] { pending_.wait(left, std::memory_order_acquire); });
  }

 private:
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> turn{0};  // incremented for each job
    std::atomic<Job*> job{nullptr};      // taken by the worker or, to dismiss it, by the caller
    std::thread thread;
  };

  static void wake(Worker& worker, Job* job) {
    worker.job.store(job, std::memory_order_release);
    worker.turn.fetch_add(1, std::memory_order_release);
    worker.turn.notify_one();
  }

  // Withdraws the job from workers that have not started it.
  void dismiss(int threads) {
    for (int i = 1; i < threads; ++i) {
      Worker& worker = *workers_[static_cast<std::size_t>(i - 1)];
      if (worker.job.exchange(nullptr, std::memory_order_relaxed)) pending_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  void grow(int threads) {
    workers_.reserve(static_cast<std::size_t>(threads - 1));  // push_back must not throw after a thread has started
    while (static_cast<int>(workers_.size()) < threads - 1) {
      auto worker = std::make_unique<Worker>();
      const int index = static_cast<int>(workers_.size()) + 1;
      worker->thread = start_thread(index, threads, [this, index, self = worker.get()] { serve(*self, index); });
      workers_.push_back(std::move(worker));
    }
  }

  void serve(Worker& worker, int index) {
    for (std::uint32_t seen = 0;; ++seen) {
      wait_for(
          spin_.load(std::memory_order_relaxed), [&] { return worker.turn.load(std::memory_order_acquire) != seen; },
          [&] { worker.turn.wait(seen, std::memory_order_acquire); });
      if (ending_.load(std::memory_order_relaxed)) return;
      Job* const job = worker.job.exchange(nullptr, std::memory_order_acquire);
      if (!job) continue;  // dismissed
      job->run(index);
      // The job may be destroyed from here on: `pending_` belongs to the pool.
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    }
  }

  const int cores_;
  std::mutex busy_;
  std::vector<std::unique_ptr<Worker>> workers_;
  alignas(64) std::atomic<int> pending_{0};
  std::atomic<bool> spin_{true}, ending_{false};
};

// The process's pool. A child of fork() has none of the threads; it drops the pool and builds a new one.
std::atomic<ThreadPool*> the_pool{nullptr};

bool forget_pool_in_children() {
  if (pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); }) != 0) throw std::bad_alloc();
  return true;
}

ThreadPool& pool() {
  static const bool registered = forget_pool_in_children();
  static_cast<void>(registered);
  if (ThreadPool* existing = the_pool.load(std::memory_order_acquire)) return *existing;
  auto fresh = std::make_unique<ThreadPool>();
  ThreadPool* expected = nullptr;
  if (the_pool.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *expected;
}

// Stops the workers when the library is unloaded or the process exits, unless a call is active.
struct AtExit {
  ~AtExit() {
    ThreadPool* const last = the_pool.exchange(nullptr);
    if (!last || !last->busy().try_lock()) return;
    last->busy().unlock();
    delete last;
  }
} at_exit;

// Runs a call on its own threads while the pool serves another thread. No body starts before all threads exist, so that
// a thread which fails to start leaves no body waiting.
void run_on_own_threads(int threads, Job& job) {
  enum : int { kWait, kRun, kLeave };
  std::atomic<int> signal{kWait};
  std::vector<std::thread> own;
  own.reserve(static_cast<std::size_t>(threads - 1));
  const auto end = [&](int value) {
    signal.store(value, std::memory_order_release);
    signal.notify_all();
    if (value == kRun) job.run(0);
    for (auto& thread : own) thread.join();
  };
  try {
    for (int i = 1; i < threads; ++i) {
      own.push_back(start_thread(i, threads, [&job, &signal, i] {
        signal.wait(kWait, std::memory_order_acquire);
        if (signal.load(std::memory_order_acquire) == kRun) job.run(i);
      }));
    }
  } catch (...) {
    end(kLeave);
    throw;
  }
  end(kRun);
}

}  // namespace

int available_cores() {
  // The mask may be larger than cpu_set_t; the kernel then returns EINVAL.
  for (int cpus = CPU_SETSIZE; cpus <= 1 << 16; cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    if (!set) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void detail::run_parallel(int threads, Late late, ParallelBody body, void* context) {
  if (inside_parallel) {
    for (int thread = 0; thread < threads; ++thread) body(context, thread);
    return;
  }
  Job job{body, context};
  {
    ThreadPool& shared = pool();
    const std::unique_lock lock(shared.busy(), std::try_to_lock);
    if (lock) {
      shared.run(threads, late, job);
    } else {
      run_on_own_threads(threads, job);
    }
  }
  if (job.error) std::rethrow_exception(std::move(job.error));
}

}  // namespace strobe
