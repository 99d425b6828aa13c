// Implements quiet.h on Linux with affinity masks and the thread states in /proc.
#include "measure/quiet.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/clock.h"

namespace strobe {
namespace {

constexpr double kPoll = 1e-3;            // seconds
constexpr double kMaxWaitSeconds = 0.25;  // Intel's OpenMP spins for 0.2 s

// Returns true if a thread of the process, except the caller, is running or runnable. Reads thread states, because the
// scheduler updates run times only at its ticks, up to 10 ms apart.
bool any_runs(pid_t process) {
  std::error_code error;
  const std::string own = std::to_string(gettid());
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(process) + "/task", error);
  if (error) return false;
  for (auto task = begin(tasks); task != end(tasks); task.increment(error)) {
    if (task->path().filename() == own) continue;
    std::ifstream file(task->path() / "stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');  // "12 (name) R ..."
    if (name_end != std::string::npos && line.compare(name_end, 3, ") R") == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

CoresOfParent::CoresOfParent() {
  cpu_set_t cores;
  changed_ = sched_getaffinity(0, sizeof(before_), &before_) == 0 &&
             sched_getaffinity(getppid(), sizeof(cores), &cores) == 0 &&
             sched_setaffinity(0, sizeof(cores), &cores) == 0;
}

CoresOfParent::~CoresOfParent() {
  if (changed_) sched_setaffinity(0, sizeof(before_), &before_);
}

std::vector<int> pin_to_cores(int count) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  std::vector<int> cores;
  // Starts at the core that the scheduler chose, so two programs that each pin one core rarely choose the same one.
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

bool wait_until_quiet(pid_t process) {
  for (const double start = now_seconds(); any_runs(process);) {
    if (now_seconds() - start > kMaxWaitSeconds) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(kPoll));
  }
  return true;
}

}  // namespace strobe
