// Linux: PR_SET_CHILD_SUBREAPER and /proc. Only this process waits for its children, so that a child's number cannot
// become that of another process before it is killed.
#include "cli/cases_judge_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/fail.h"
#include "measure/clock.h"

namespace strobe::cli {
namespace {

constexpr double kPatience = 10;  // seconds

// The parent by /proc/PID/stat, "7 (name) S 1 ...": the name may hold spaces and parentheses. 0: no such process.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text, state;
  std::getline(file, text);
  pid_t parent = 0;
  std::istringstream(text.substr(text.rfind(')') + 1)) >> state >> parent;
  return parent;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t process = 0;
    const auto [rest, code] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (code != std::errc() || *rest != '\0' || parent_of(entry->path()) != getpid()) continue;
    found.push_back(process);
  }
  return found;
}

// A session of a descendant holds descendants only: one signal ends a group that keeps forking.
void kill_with_group(pid_t process) {
  if (getsid(process) > 0 && getsid(process) != getsid(0)) kill(-getpgid(process), SIGKILL);
  kill(process, SIGKILL);
}

}  // namespace

JudgedProcesses::JudgedProcesses() : own_(children()) { prctl(PR_SET_CHILD_SUBREAPER, 1); }

JudgedProcesses::~JudgedProcesses() {
  try {
    end_all();
  } catch (const Error&) {
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

void JudgedProcesses::end_all() const {
  const double deadline = now_seconds() + kPatience;
  for (;;) {
    std::vector<pid_t> left = children();
    std::erase_if(left, [&](pid_t one) { return std::find(own_.begin(), own_.end(), one) != own_.end(); });
    if (left.empty()) return;
    for (const pid_t process : left) {
      kill_with_group(process);
      waitpid(process, nullptr, WNOHANG);
    }
    if (now_seconds() > deadline) {
      fail(ErrorCode::runtime, "cases judge: {} processes of the program cannot be killed", left.size());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace strobe::cli
