// Runs the program in the background, so that a test can send it signals or change files while it runs.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/run_program.h"

namespace strobe::test {

inline void pause_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Polls for at most a minute until the condition is true. Returns its last value.
template <class Condition>
bool becomes(Condition condition) {
  for (int i = 0; i < 60 * 50 && !condition(); ++i) pause_for(0.02);
  return condition();
}

inline std::vector<std::string> words_in(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Called in the child after fork: executes the program in the scratch folder.
[[noreturn]] inline void become_program(const std::string& arguments, const Scratch& scratch) {
  std::vector<std::string> words = words_in(arguments);
  std::vector<char*> pointers{const_cast<char*>(STROBE_PROGRAM)};
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  if (chdir(scratch.path().c_str()) == 0) execv(STROBE_PROGRAM, pointers.data());
  _exit(127);
}

class Background {  // the destructor kills the program if wait() was not called
 public:
  // `errors` names the file in the scratch folder that receives standard error; empty: /dev/null.
  Background(const std::string& arguments, const Scratch& scratch, const std::string& errors = "") : pid_(fork()) {
    if (pid_ != 0) return;
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) dup2(nowhere, stream);
    if (!errors.empty()) dup2(open((scratch.path() / errors).c_str(), O_WRONLY | O_CREAT, 0666), STDERR_FILENO);
    become_program(arguments, scratch);
  }

  ~Background() {
    if (pid_ <= 0) return;
    send(SIGKILL);
    wait();
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void send(int signal) const { kill(pid_, signal); }

  // Returns true if the program has a temporary file open: an unnamed one ("/tmp/#1234 (deleted)") or a named one of
  // temporary_file.h.
  bool has_temporary_file() const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd", error)) {
      const std::string target = std::filesystem::read_symlink(entry, error).string();
      if (target.find("/#") != std::string::npos || target.find(".strobe-tmp-") != std::string::npos) return true;
    }
    return false;
  }

  bool has_ended() const {
    siginfo_t end{};
    return waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != 0;
  }

  // Returns the exit code, or 128 + the signal that ended the program.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// Returns everything that the program writes to a terminal of 100 columns.
inline std::string run_on_terminal(const std::string& arguments, const Scratch& scratch) {
  int terminal = -1;
  winsize size{.ws_row = 25, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) become_program(arguments, scratch);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(terminal, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(got));
  waitpid(child, nullptr, 0);
  close(terminal);
  return text;
}

// Returns the number of processes whose command line contains the text.
inline int processes_with(const std::string& text) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::ostringstream line;
    line << file.rdbuf();
    if (line.str().find(text) != std::string::npos) ++count;
  }
  return count;
}

}  // namespace strobe::test
