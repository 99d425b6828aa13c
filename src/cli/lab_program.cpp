// exec, so that strobe-lab receives signals and sets the exit code.
#include "cli/lab_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/this_program.h"
#include "core/fail.h"

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
