// Reads processor time on Linux: /proc/stat per core, /proc/PID/stat per process, both in clock ticks.
#include "measure/core_time.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace strobe {
namespace {

double seconds_per_tick() { return 1.0 / static_cast<double>(std::max(1l, sysconf(_SC_CLK_TCK))); }

double ticks_on(const std::vector<int>& cores) {
  std::ifstream file("/proc/stat");
  double sum = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;
    if (std::find(cores.begin(), cores.end(), std::atoi(name.c_str() + 3)) == cores.end()) continue;
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, hard = 0, soft = 0, stolen = 0;
    fields >> user >> nice >> system >> idle >> wait >> hard >> soft >> stolen;
    sum += user + nice + system + hard + soft + stolen;
  }
  return sum;
}

struct Process {
  pid_t parent = 0;
  double ticks = 0;  // includes children that the process has waited for
};

Process read_process(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text, word;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // the process name may contain any character
  Process process;
  fields >> word >> process.parent;
  for (int field = 5; field < 14; ++field) fields >> word;  // proc(5): utime is the 14th
  for (int i = 0; i < 4; ++i) {
    double ticks = 0;
    if (fields >> ticks) process.ticks += ticks;
  }
  return process;
}

double own_ticks() {
  std::map<pid_t, Process> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t id = std::atoi(entry.path().filename().c_str());
    if (id > 0) processes[id] = read_process(entry.path());
  }
  double sum = 0;
  for (const auto& [id, process] : processes) {
    pid_t ancestor = id;
    for (int depth = 0; depth < 64 && ancestor > 1 && ancestor != getpid(); ++depth) {
      const auto found = processes.find(ancestor);
      ancestor = found == processes.end() ? 0 : found->second.parent;
    }
    if (ancestor == getpid()) sum += process.ticks;
  }
  return sum;
}

}  // namespace

CoreTime core_time(const std::vector<int>& cores) {
  return {.all = seconds_per_tick() * ticks_on(cores), .own = seconds_per_tick() * own_ticks()};
}

double cores_used_by_others(const CoreTime& before, const CoreTime& after, double seconds) {
  if (!(seconds > 0)) return 0;
  return std::max(0.0, (after.all - before.all) - (after.own - before.own)) / seconds;
}

}  // namespace strobe
