// Starts programs with fork and exec. After the fork, the child makes only async-signal-safe calls, except in the
// caller's before_exec.
#include "process/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

#include "core/fail.h"

namespace strobe {
namespace {

constexpr int kCannotExecute = 127;  // the code that a shell uses

std::vector<char*> words_of(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  return words;
}

// Duplicates descriptors[i] to descriptor i (dup2), unless it is -1. Returns a duplicate of `report` with a higher
// number than all of these.
int arrange(std::span<int> descriptors, int report) {
  // First duplicate all of them above the final numbers, so that no dup2 overwrites a descriptor that is still needed.
  const int count = static_cast<int>(descriptors.size());
  for (int& descriptor : descriptors) descriptor = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, count);
  report = fcntl(report, F_DUPFD_CLOEXEC, count);
  for (int i = 0; i < count; ++i) {
    if (descriptors[static_cast<std::size_t>(i)] >= 0) dup2(descriptors[static_cast<std::size_t>(i)], i);
  }
  return report;
}

}  // namespace

Pipe::Pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::runtime, "cannot create a pipe: {}", std::strerror(errno));
  read.reset(ends[0]);
  write.reset(ends[1]);
}

pid_t fork_child(int death_signal, const std::function<void()>& body) {
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail(ErrorCode::runtime, "cannot start a process: {}", std::strerror(errno));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(kCannotExecute);  // the parent ended before prctl
  body();
  _exit(kCannotExecute);
}

pid_t spawn(const std::vector<std::string>& command, const SpawnOptions& options) {
  const std::vector<char*> words = words_of(command);
  std::vector<int> descriptors{options.input, options.output, options.errors};
  descriptors.insert(descriptors.end(), options.descriptors.begin(), options.descriptors.end());
  Pipe failure;
  const pid_t child = fork_child(options.death_signal, [&] {
    if (options.own_group) setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    const int report = arrange(descriptors, failure.write.get());
    if (options.others == SpawnOptions::Others::closed)
      close_range(static_cast<unsigned>(descriptors.size()), ~0u, CLOSE_RANGE_CLOEXEC);
    if (options.before_exec) options.before_exec();
    if (options.folder.empty() || chdir(options.folder.c_str()) == 0) execvp(words[0], words.data());
    const int error = errno;
    static_cast<void>(!write(report, &error, sizeof(error)));
  });
  if (options.own_group) setpgid(child, child);  // set in the parent too, because either process may run first
  failure.write.reset();
  int error = 0;
  ssize_t got;
  while ((got = read(failure.read.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got != sizeof(error)) return child;
  wait_for(child);
  fail(ErrorCode::unsupported, "cannot start {}: {}", command.at(0), std::strerror(error));
}

void become(const std::vector<std::string>& command) {
  const std::vector<char*> words = words_of(command);
  execvp(words[0], words.data());
  fail(ErrorCode::unsupported, "cannot start {}: {}", command.at(0), std::strerror(errno));
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::filesystem::path this_program() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::runtime, "/proc/self/exe: {}", error.message());
  return path;
}

}  // namespace strobe
