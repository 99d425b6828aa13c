// Only this process waits for its children, so a child's pid cannot be reused before the child is killed.
#include "cli/course/judge_processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "core/fail.h"
#include "measure/clock.h"

namespace strobe::cli {
namespace {

constexpr double kPatience = 10;  // seconds

// A descendant's session holds descendants only. One signal to the group ends a group that keeps forking.
void kill_with_group(pid_t process) {
  if (getsid(process) > 0 && getsid(process) != getsid(0)) kill(-getpgid(process), SIGKILL);
  kill(process, SIGKILL);
}

}  // namespace

JudgedProcesses::~JudgedProcesses() {
  try {
    end_all();
  } catch (const Error&) {
  }
}

void JudgedProcesses::end_all() const {
  const double deadline = now_seconds() + kPatience;
  for (;;) {
    std::vector<pid_t> left = own_children();
    std::erase_if(left, [&](pid_t one) { return subreaper_.had(one); });
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
