// Linux on x86-64 requires a process to request permission before it uses AMX tile registers.
#include "device/host/amx_permission.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace strobe {

bool request_amx_permission() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;  // leaf 7, EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM of Linux 5.16, which the build's headers may not define
  constexpr long kTileData = 18;     // XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

}  // namespace strobe
#else
namespace strobe {

bool request_amx_permission() { return false; }

}  // namespace strobe
#endif
