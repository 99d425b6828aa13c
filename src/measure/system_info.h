// Memory and operating system as they are now. The processor and the GPUs are device/device_info.h's.
#pragma once

#include <cstdint>
#include <string>

namespace strobe {

struct MemoryInfo {
  std::int64_t total = 0;      // bytes
  std::int64_t available = 0;  // without swapping; the control group's limit counts
};

MemoryInfo read_memory_info();

// "Debian GNU/Linux 12 (bookworm), Linux 6.1.0, glibc 2.36"
std::string read_system();

}  // namespace strobe
