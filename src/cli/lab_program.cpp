#include "cli/lab_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/fail.h"

namespace strobe::cli {

std::string lab_program() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::runtime, "/proc/self/exe: {}", error.message());
  const std::filesystem::path lab = self.parent_path() / "strobe-lab";
  if (!std::filesystem::exists(lab, error)) {
    fail(ErrorCode::unsupported, "there is no program strobe-lab in {}: build target strobe_lab_program",
         self.parent_path().string());
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
