// Runs the built program in a scratch folder through the shell, as users do.
#pragma once

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>

#include "support/scratch.h"

namespace strobe::test {

struct Program {
  int code = 0;
  std::string output;
  std::string errors;
};

// Runs a shell command in the scratch folder.
inline Program run_command(const std::string& command, const Scratch& scratch) {
  const Scratch streams;
  const std::string whole = "cd '" + scratch.path().string() + "' && " + command + " >'" +
                            (streams.path() / "out").string() + "' 2>'" + (streams.path() / "err").string() + "'";
  const int status = std::system(whole.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), streams.read("out"), streams.read("err")};
}

// `before` is text before the command: environment variables, or a program such as timeout that runs it. The command
// sees no GPU, so defaults are the same on every machine.
inline Program run_program(const std::string& arguments, const Scratch& scratch, const std::string& before = "") {
  return run_command("CUDA_VISIBLE_DEVICES= " + before + " '" STROBE_PROGRAM "' " + arguments, scratch);
}

inline Program run_program(const std::string& arguments) {
  const Scratch scratch;
  return run_program(arguments, scratch);
}

}  // namespace strobe::test
