#include "cli/course/judge_files.h"

#include <sys/stat.h>

#include <algorithm>

namespace strobe::cli {
namespace {

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

CaseFilesWatch::Stamp CaseFilesWatch::stamp_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

CaseFilesWatch::CaseFilesWatch(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const Stamp stamp = stamp_of(path);
    files_.push_back({path, stamp, stamp});
  }
}

std::string CaseFilesWatch::newly_changed() {
  std::string first;
  for (Watched& file : files_) {
    const Stamp now = stamp_of(file.path);
    if (now != file.latest && first.empty()) first = file.path;
    file.latest = now;
  }
  return first;
}

bool CaseFilesWatch::is_original(const std::string& path) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&](const Watched& file) { return file.path == path && stamp_of(path) == file.first; });
}

}  // namespace strobe::cli
