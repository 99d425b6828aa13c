// Linux: affinity masks, and the nanoseconds on a core that the scheduler keeps for every thread.
#include "measure/quiet.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "measure/clock.h"

namespace strobe {
namespace {

constexpr double kPoll = 1e-3;
constexpr double kLongest = 50e-3;
constexpr double kQuietShare = 0.1;

// Seconds that all threads of a process, the caller's excepted, have run so far.
std::optional<double> seconds_on_core(pid_t process) {
  std::error_code error;
  const std::string own = std::to_string(gettid());
  double nanoseconds = 0;
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(process) + "/task", error);
  if (error) return std::nullopt;
  for (auto task = begin(tasks); task != end(tasks); task.increment(error)) {
    if (error) return std::nullopt;
    if (task->path().filename() == own) continue;
    std::ifstream file(task->path() / "schedstat");
    double ran = 0;
    if (file >> ran) nanoseconds += ran;
  }
  return nanoseconds * 1e-9;
}

}  // namespace

std::vector<int> own_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> pin_to_cores(int count) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  std::vector<int> cores;
  // From the core that the scheduler has just given us on: two programs that pin one core each rarely meet.
  const int first = std::max(0, sched_getcpu());
  for (int i = 0; i < CPU_SETSIZE && static_cast<int>(cores.size()) < count; ++i) {
    const int core = (first + i) % CPU_SETSIZE;
    if (!CPU_ISSET(core, &allowed)) continue;
    CPU_SET(core, &chosen);
    cores.push_back(core);
  }
  if (cores.empty() || sched_setaffinity(0, sizeof(chosen), &chosen) != 0) return {};
  return cores;
}

void wait_until_quiet(pid_t process) {
  const double start = now_seconds();
  double then = start;
  std::optional<double> before = seconds_on_core(process);
  while (before && then - start < kLongest) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kPoll));
    const std::optional<double> after = seconds_on_core(process);
    const double now = now_seconds();
    if (!after || *after - *before < kQuietShare * (now - then)) return;
    before = after;
    then = now;
  }
}

}  // namespace strobe
