// exec, so that strobe-lab receives signals and sets the exit code.
#include "cli/course/lab_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/fail.h"
#include "process/this_program.h"

namespace strobe::cli {

std::string lab_program() {
  const std::filesystem::path folder = this_program().parent_path(), lab = folder / "strobe-lab";
  std::error_code error;
  if (!std::filesystem::exists(lab, error)) {
    fail(ErrorCode::unsupported, "there is no program strobe-lab in {}: build target strobe_lab_program",
         folder.string());
  }
  return lab.string();
}

void become_lab(std::vector<std::string> arguments) {
  std::string program = lab_program();
  std::vector<char*> words{program.data()};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  fail(ErrorCode::runtime, "{}: {}", program, std::strerror(errno));
}

}  // namespace strobe::cli
