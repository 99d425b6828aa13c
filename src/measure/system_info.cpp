// Reads /proc, /sys and /etc/os-release. Values that are missing stay 0 or empty; nothing throws.
#include "measure/system_info.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

namespace strobe {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\"");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\"") + 1 - begin);
}

// Reads lines of the form "key<separator>value".
std::map<std::string, std::string> read_pairs(const char* path, char separator) {
  std::map<std::string, std::string> pairs;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (at != std::string::npos) pairs.emplace(trimmed(line.substr(0, at)), trimmed(line.substr(at + 1)));
  }
  return pairs;
}

}  // namespace

MemoryInfo read_memory_info() {
  const auto pairs = read_pairs("/proc/meminfo", ':');
  const auto bytes = [&](const char* key) -> std::int64_t {
    const auto found = pairs.find(key);
    return found == pairs.end() ? 0 : std::atoll(found->second.c_str()) * 1024;
  };
  MemoryInfo info{.total = bytes("MemTotal"), .available = bytes("MemAvailable")};
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  if (!limit.empty() && limit != "max") {
    const std::int64_t most = std::atoll(limit.c_str());
    const std::int64_t used = std::atoll(first_line("/sys/fs/cgroup/memory.current").c_str());
    if (most > 0) {
      info.total = std::min(info.total, most);
      info.available = std::min(info.available, std::max<std::int64_t>(0, most - used));
    }
  }
  return info;
}

std::string read_system() {
  const auto release = read_pairs("/etc/os-release", '=');
  const auto pretty = release.find("PRETTY_NAME");
  std::string text = pretty == release.end() ? std::string("Linux") : pretty->second;
  utsname name{};
  if (uname(&name) == 0) text += std::string(", ") + name.sysname + " " + name.release;
  return text + ", glibc " + gnu_get_libc_version();
}

}  // namespace strobe
