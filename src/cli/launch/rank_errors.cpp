// Collects errors of ranks in a memfd of the launcher, one line per rank: "2 --steps x: ...". Ranks run on the same
// host and open the file through /proc.
#include "cli/launch/rank_errors.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "cli/verbs.h"
#include "comm/world.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/write_all.h"

namespace strobe::cli {
namespace {

constexpr const char* kVariable = "STROBE_REFUSALS";
std::string launchers_file;  // path of the memfd; empty: no launcher

// One error line and the ranks that reported it.
struct RankError {
  std::string line;
  std::vector<int> ranks;
};

std::vector<RankError> read_errors(const std::string& path) {
  std::vector<RankError> all;
  std::ifstream file(path);
  int rank = 0;
  for (std::string line; file >> rank && file.get() && std::getline(file, line);) {
    auto same = std::find_if(all.begin(), all.end(), [&](const RankError& one) { return one.line == line; });
    if (same == all.end()) same = all.insert(same, {line, {}});
    same->ranks.push_back(rank);
  }
  for (RankError& one : all) std::sort(one.ranks.begin(), one.ranks.end());
  std::sort(all.begin(), all.end(), [](const RankError& a, const RankError& b) { return a.ranks < b.ranks; });
  return all;
}

std::string path_of(int descriptor) { return fmt::format("/proc/{}/fd/{}", getpid(), descriptor); }

}  // namespace

RankErrors::RankErrors() : descriptor_(memfd_create("strobe-refusals", MFD_CLOEXEC)) {
  if (descriptor_ < 0) fail(ErrorCode::runtime, "launch: cannot create an unnamed file: {}", std::strerror(errno));
  setenv(kVariable, path_of(descriptor_).c_str(), 1);
}

RankErrors::~RankErrors() {
  unsetenv(kVariable);
  close(descriptor_);
}

std::string RankErrors::text(int ranks) const {
  std::vector<std::string> parts;
  for (const RankError& one : read_errors(path_of(descriptor_))) {
    const bool all = ranks > 1 && static_cast<int>(one.ranks.size()) == ranks;
    const std::string who = all ? fmt::format("all {} ranks", ranks)
                                : fmt::format("rank{} {}", one.ranks.size() > 1 ? "s" : "", fmt::join(one.ranks, ", "));
    parts.push_back(who + ": " + one.line);
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

void take_launchers_file() {
  if (const char* const path = getenv(kVariable)) launchers_file = path;
  unsetenv(kVariable);
}

void pass_launchers_file_on() {
  if (!launchers_file.empty()) setenv(kVariable, launchers_file.c_str(), 1);
}

bool report_to_launcher(std::string_view line) {
  if (launchers_file.empty()) return false;
  const int file = open(launchers_file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return false;
  const int error =
      write_all(file, fmt::format("{} {}\n", comm::this_world().rank, printable(line, std::string_view::npos)));
  close(file);
  return error == 0;
}

}  // namespace strobe::cli
