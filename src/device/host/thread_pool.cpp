// Implements parallel() with worker threads that concurrent calls share. A worker spins briefly after each job, because
// the next call often follows soon, and then sleeps. The pool is created at the first use, and again in a child of
// fork().
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
thread_local const Executor* current_executor = nullptr;

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

// Waits until done() returns true. If `spin`, polls for about 30 us. Then calls sleep() in a loop; sleep() may return
// early.
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

// Starts a thread with all signals blocked, because the program's own threads should handle signals.
template <class F>
std::thread start_thread(int index, F&& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::forward<F>(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    fail(ErrorCode::runtime, "threads: cannot start worker {}: {}", index, error.what());
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

  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return calls_ == 0;
  }

  // Runs body 0 on the caller and the other bodies on idle workers. Concurrent calls share the workers. Bodies without
  // a worker run on the caller after body 0, in order of their index. With Late::dismissed they do not run.
  void run(int threads, detail::Late late, Job& job) {
    const Claim claim(*this, threads);
    Team& team = claim.team();
    const int helped = static_cast<int>(team.workers.size());
    team.pending.store(helped, std::memory_order_relaxed);
    for (Worker* worker : team.workers) wake(*worker, &job);
    job.run(0);
    if (late == detail::Late::dismissed) {
      dismiss(team);
    } else {
      for (int i = helped + 1; i < threads; ++i) job.run(i);
    }
    int left = 0;
    wait_for(
        spin_.load(std::memory_order_relaxed),
        [&] { return (left = team.pending.load(std::memory_order_acquire)) == 0; },
        [&] { team.pending.wait(left, std::memory_order_acquire); });
  }

 private:
  struct Team;
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> turn{0};  // incremented for each job
    std::atomic<Job*> job{nullptr};  // set to null by the worker when it starts the job, or by the caller to dismiss it
    int index = 0;                   // index of the worker's body; written before `job`
    Team* team = nullptr;            // written before `job`
    std::thread thread;
  };

  // The workers of one call. A Team's memory outlives the call, because the last worker notifies `pending` after the
  // job may have been destroyed.
  struct alignas(64) Team {
    std::atomic<int> pending{0};
    std::vector<Worker*> workers;
  };

  // Claims idle workers for a call with `threads` threads, and releases them at the end of the scope.
  class Claim {
   public:
    Claim(ThreadPool& pool, int threads) : pool_(pool), team_(pool.claim(threads)) {}
    ~Claim() { pool_.release(team_); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    Team& team() const { return team_; }

   private:
    ThreadPool& pool_;
    Team& team_;
  };

  Team& claim(int threads) {
    const std::lock_guard lock(mutex_);
    const auto wanted = static_cast<std::size_t>(threads - 1);
    // A single call may have more threads than there are cores. Several calls together have at most about one per core.
    while (idle_.size() < wanted && (calls_ == 0 || static_cast<int>(workers_.size()) + calls_ + 1 < cores_)) grow();
    if (free_teams_.empty()) {
      teams_.push_back(std::make_unique<Team>());
      free_teams_.reserve(teams_.size());  // release() must not allocate
      free_teams_.push_back(teams_.back().get());
    }
    Team& team = *free_teams_.back();
    team.workers.reserve(wanted);
    free_teams_.pop_back();
    while (team.workers.size() < wanted && !idle_.empty()) {
      Worker& worker = *idle_.back();
      idle_.pop_back();
      team.workers.push_back(&worker);
      worker.index = static_cast<int>(team.workers.size());
      worker.team = &team;
    }
    ++calls_;
    busy_ += static_cast<int>(team.workers.size()) + 1;
    spin_.store(busy_ <= cores_, std::memory_order_relaxed);
    return team;
  }

  void release(Team& team) {
    const std::lock_guard lock(mutex_);
    --calls_;
    busy_ -= static_cast<int>(team.workers.size()) + 1;
    // Reverses the order, so that each worker has the same index in the next call and may still have its data in cache.
    idle_.insert(idle_.end(), team.workers.rbegin(), team.workers.rend());
    team.workers.clear();
    free_teams_.push_back(&team);
  }

  void grow() {
    workers_.reserve(workers_.size() + 1);  // push_back must not throw after the thread has started
    idle_.reserve(workers_.size() + 1);
    auto worker = std::make_unique<Worker>();
    worker->thread = start_thread(static_cast<int>(workers_.size()) + 1, [this, self = worker.get()] { serve(*self); });
    idle_.insert(idle_.begin(), worker.get());
    workers_.push_back(std::move(worker));
  }

  static void wake(Worker& worker, Job* job) {
    worker.job.store(job, std::memory_order_release);
    worker.turn.fetch_add(1, std::memory_order_release);
    worker.turn.notify_one();
  }

  // Takes the job back from workers that have not started it.
  static void dismiss(Team& team) {
    for (Worker* worker : team.workers) {
      if (worker->job.exchange(nullptr, std::memory_order_relaxed))
        team.pending.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  void serve(Worker& worker) {
    for (std::uint32_t seen = 0;; ++seen) {
      wait_for(
          spin_.load(std::memory_order_relaxed), [&] { return worker.turn.load(std::memory_order_acquire) != seen; },
          [&] { worker.turn.wait(seen, std::memory_order_acquire); });
      if (ending_.load(std::memory_order_relaxed)) return;
      Job* const job = worker.job.exchange(nullptr, std::memory_order_acquire);
      if (!job) continue;  // dismissed
      Team& team = *worker.team;
      job->run(worker.index);
      // After fetch_sub the job may be destroyed, and the worker may be claimed again.
      if (team.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) team.pending.notify_one();
    }
  }

  const int cores_;
  std::mutex mutex_;  // guards the members from workers_ to busy_
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;  // claimed from the end
  std::vector<std::unique_ptr<Team>> teams_;
  std::vector<Team*> free_teams_;
  int calls_ = 0, busy_ = 0;  // number of active calls; number of their threads including the callers
  // The members below are read without the mutex.
  std::atomic<bool> spin_{true}, ending_{false};
};

// The process's pool. A child of fork() does not have the threads, so it abandons the pool and creates a new one.
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
    if (last && last->is_idle()) delete last;
  }
} at_exit;

void run_on(const Executor& executor, int threads, Job& job) {
  struct Tasks {
    Job& job;
    std::atomic<int> ended{0};
  } tasks{job};
  const auto task = [](void* context, int index) {
    Tasks& all = *static_cast<Tasks*>(context);
    all.job.run(index);
    all.ended.fetch_add(1, std::memory_order_release);
  };
  executor.run(executor.context, threads, task, &tasks);
  const int ended = tasks.ended.load(std::memory_order_acquire);
  if (ended != threads) fail(ErrorCode::runtime, "executor: ran {} of {} tasks", ended, threads);
}

}  // namespace

ExecutorScope::ExecutorScope(const Executor& executor) : before_(current_executor) {
  if (executor) current_executor = &executor;
}
ExecutorScope::~ExecutorScope() { current_executor = before_; }

int available_cores() {
  // The system's mask may be larger than cpu_set_t. The system call then fails with EINVAL, and a larger set is tried.
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
  if (current_executor) {
    run_on(*current_executor, threads, job);
  } else {
    pool().run(threads, late, job);
  }
  if (job.error) std::rethrow_exception(std::move(job.error));
}

}  // namespace strobe
