// Reads memory size and operating system. device/device_info.h describes the processor and the GPUs.
#pragma once

#include <cstdint>
#include <string>

namespace strobe {

struct MemoryInfo {
  std::int64_t total = 0;      // bytes
  std::int64_t available = 0;  // bytes available without swapping; the cgroup's limit caps both values
};

MemoryInfo read_memory_info();

// "Debian GNU/Linux 12 (bookworm), Linux 6.1.0, glibc 2.36"
std::string read_system();

}  // namespace strobe
