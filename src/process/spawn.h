// Starts programs. All fork and exec calls of the library and the program are here. The kernel signals every child when
// the thread that started it ends (PR_SET_PDEATHSIG).
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/descriptor.h"

namespace strobe {

// An anonymous pipe. Both ends are close-on-exec. Throws Error(runtime).
struct Pipe {
  Pipe();
  Descriptor read, write;
};

struct SpawnOptions {
  int input = -1, output = -1, errors = -1;                         // standard streams of the child; -1: inherited
  std::vector<int> descriptors{};                                   // become descriptors 3, 4 and so on of the child
  enum class Others { closed, inherited } others = Others::closed;  // other descriptors without close-on-exec
  std::string folder{};                 // working folder of the child; empty: this process's
  bool own_group = true;                // its own process group, which a terminal's Ctrl-C does not reach
  int death_signal = SIGKILL;           // sent to the child when this thread ends
  std::function<void()> before_exec{};  // runs in the child, before it enters `folder` and calls exec
};

// Starts a program, found through PATH unless the name has a slash. Throws Error(unsupported) if the folder cannot
// be entered or the program cannot be executed, Error(runtime) if pipe or fork fails.
pid_t spawn(const std::vector<std::string>& command, const SpawnOptions& options);

// Forks a child that calls `body`, which should call exec. If `body` returns, the child exits with code 127. Throws
// Error(runtime) if fork fails.
pid_t fork_child(int death_signal, const std::function<void()>& body);

// Replaces this process with a program. Throws Error(unsupported) if it cannot be executed.
[[noreturn]] void become(const std::vector<std::string>& command);

// Waits until a child ends and returns its wait status.
int wait_for(pid_t child);

// Returns the exit code that a shell reports for a wait status: 128 + signal if a signal ended the child.
int exit_code_of(int status);

// Returns the path of this program's executable. Throws Error(runtime) if /proc does not provide it.
std::filesystem::path this_program();

}  // namespace strobe
