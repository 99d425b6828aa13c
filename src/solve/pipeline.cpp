// Implements run_pipeline() with one mutex, one condition variable and three counters, which suffice because chunks are
// few and large.
#include "solve/pipeline.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "core/fail.h"

namespace strobe::solve {
namespace {

class Pipeline {
 public:
  Pipeline(std::int64_t chunks, std::int64_t in_flight, const Stages& stages)
      : chunks_(chunks), in_flight_(in_flight), stages_(stages) {}

  void run() {
    std::thread loader, storer;
    try {
      loader = std::thread([this] { work(stages_.load, loaded_, stored_, in_flight_); });
      storer = std::thread([this] { work(stages_.store, stored_, computed_, 0); });
      work(stages_.compute, computed_, loaded_, 0);
    } catch (const std::system_error& error) {
      end(std::make_exception_ptr(
          Error(ErrorCode::runtime, fmt::format("solve: cannot start a thread: {}", error.what()))));
    } catch (const std::bad_alloc&) {  // the loader may already run and must be joined
      end(std::current_exception());
    }
    if (loader.joinable()) loader.join();
    if (storer.joinable()) storer.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // Calls `stage` for each chunk in order, once chunk < before + ahead. `before` counts the chunks completed by the
  // stage that this stage waits for, `done` the chunks completed by this stage.
  void work(const std::function<void(std::int64_t)>& stage, std::int64_t& done, const std::int64_t& before,
            std::int64_t ahead) {
    try {
      for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
        {
          std::unique_lock lock(mutex_);
          moved_.wait(lock, [&] { return failure_ || chunk < before + ahead; });
          if (failure_) return;
        }
        stage(chunk);
        const std::lock_guard lock(mutex_);
        done = chunk + 1;
        moved_.notify_all();
      }
    } catch (...) {
      end(std::current_exception());
    }
  }

  void end(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    moved_.notify_all();
  }

  const std::int64_t chunks_, in_flight_;
  const Stages& stages_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::int64_t loaded_ = 0, computed_ = 0, stored_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void run_pipeline(std::int64_t chunks, std::int64_t in_flight, const Stages& stages) {
  Pipeline(chunks, in_flight, stages).run();
}

}  // namespace strobe::solve
