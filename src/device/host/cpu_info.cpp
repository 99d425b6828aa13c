// Implements cpu_info(): reads the properties of this machine's processor from /proc and /sys. Values that the system
// does not report stay empty or 0.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "core/fail.h"
#include "device/device_info.h"
#include "device/host/thread_pool.h"

namespace strobe {

namespace {

// Returns the first line of a file, or "" if it cannot be read.
std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the value of the first "key : value" line of /proc/cpuinfo with this key.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto end = line.find_last_not_of(" \t", colon - 1);
    if (colon == 0 || end == std::string::npos || line.substr(0, end + 1) != key) continue;
    const auto begin = line.find_first_not_of(' ', colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// Returns the model on Arm, where Linux reports numbers instead of a name.
std::string arm_model() {
  struct Part {
    const char* number;
    const char* name;
  };
  static constexpr std::array<Part, 8> kParts{{{"0xd0c", "Arm Neoverse-N1"},
                                               {"0xd40", "Arm Neoverse-V1"},
                                               {"0xd49", "Arm Neoverse-N2"},
                                               {"0xd4f", "Arm Neoverse-V2"},
                                               {"0xd83", "Arm Neoverse-V3"},
                                               {"0xd8e", "Arm Neoverse-N3"},
                                               {"0xd08", "Arm Cortex-A72"},
                                               {"0xd0b", "Arm Cortex-A76"}}};
  const std::string implementer = cpuinfo("CPU implementer");
  const std::string part = cpuinfo("CPU part");
  if (implementer == "0x41") {
    for (const auto& known : kParts) {
      if (part == known.number) return known.name;
    }
  }
  return part.empty() ? "" : fmt::format("implementer {}, part {}", implementer, part);
}

std::string model_name() {
  std::string model = cpuinfo("model name");
  if (model.empty()) model = arm_model();
  return model.empty() ? "unknown" : model;
}

// Returns the processor flags that may affect performance. Linux on Arm calls the line "Features".
std::vector<std::string> isa_flags() {
  static constexpr std::array<std::string_view, 22> kWanted{
      "avx",         "avx2",        "fma",         "f16c",     "avx512f",  "avx512bw", "avx512dq", "avx512vl",
      "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd",    "asimdhp",
      "asimddp",     "bf16",        "i8mm",        "sve",      "sve2",     "sme"};
  std::string flags = cpuinfo("flags");
  if (flags.empty()) flags = cpuinfo("Features");
  std::istringstream words(flags);
  std::vector<std::string> found;
  for (std::string word; words >> word;) {
    if (std::find(kWanted.begin(), kWanted.end(), word) != kWanted.end()) found.push_back(word);
  }
  return found;
}

// Returns the number of cores in a list such as "0-3,8".
int count_of_list(const std::string& list) {
  std::istringstream parts(list);
  int count = 0;
  for (std::string part; std::getline(parts, part, ',');) {
    const auto dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    count += last - first + 1;
  }
  return std::max(1, count);
}

// Parses a size such as "48K", "2M" or "64".
std::size_t parse_size(const std::string& text) {
  char* end = nullptr;
  const std::size_t number = std::strtoull(text.c_str(), &end, 10);
  return number * (*end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : 1);
}

std::vector<CacheInfo> cache_list() {
  std::vector<CacheInfo> caches;
  for (int index = 0; index < 16; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string size = read_line(folder + "size");
    if (size.empty()) continue;
    caches.push_back({std::atoi(read_line(folder + "level").c_str()), read_line(folder + "type"), parse_size(size),
                      parse_size(read_line(folder + "coherency_line_size")),
                      count_of_list(read_line(folder + "shared_cpu_list"))});
  }
  std::stable_sort(caches.begin(), caches.end(), [](auto& a, auto& b) { return a.level < b.level; });
  return caches;
}

// Returns the MHz from a sysfs file in kHz, or 0 if the system does not report it.
double mhz_of(const char* file) {
  return std::atof(read_line(std::string("/sys/devices/system/cpu/cpu0/cpufreq/") + file).c_str()) / 1000;
}

double current_mhz() {
  const double mhz = mhz_of("scaling_cur_freq");
  return mhz > 0 ? mhz : std::atof(cpuinfo("cpu MHz").c_str());  // for x86 systems without cpufreq
}

}  // namespace

CpuInfo cpu_info() {
  CpuInfo info;
  info.model = model_name();
#if defined(__x86_64__)
  info.architecture = "x86_64";
#elif defined(__aarch64__)
  info.architecture = "aarch64";
#else
  info.architecture = "other";
#endif
  info.cores = available_cores();
  info.cores_online = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  info.caches = cache_list();
  info.isa = isa_flags();
  info.current_mhz = current_mhz();
  info.max_mhz = mhz_of("cpuinfo_max_freq");
  info.memory_bytes = static_cast<std::size_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                      static_cast<std::size_t>(std::max(0L, sysconf(_SC_PAGE_SIZE)));
  return info;
}

}  // namespace strobe
