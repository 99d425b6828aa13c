// Implements instruction_sets.h: detects the machine's instruction sets and checks STROBE_CPU_ISA.
#include "device/host/instruction_sets.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include "core/fail.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include "device/host/amx_permission.h"
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace strobe {

namespace {

#if defined(__x86_64__)
// clang 14 has no __builtin_cpu_supports("f16c").
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
bool has_amx() { return has_avx512bf16() && request_amx_permission(); }

std::array<InstructionSet, 5> detect() {
  return {{{"generic", true},
           {"avx2", has_avx2()},
           {"avx512", has_avx512()},
           {"avx512bf16", has_avx512bf16()},
           {"amx", has_amx()}}};
}
#elif defined(__aarch64__)
std::array<InstructionSet, 3> detect() {
  constexpr unsigned long kHwcap2Bf16 = 1ul << 14;
  return {{{"generic", true}, {"neon", true}, {"neonbf16", (getauxval(AT_HWCAP2) & kHwcap2Bf16) != 0}}};
}
#else
std::array<InstructionSet, 1> detect() { return {{{"generic", true}}}; }
#endif

}  // namespace

std::span<const InstructionSet> instruction_sets() {
  static const auto found = detect();
  return found;
}

const char* forced_instruction_set() {
  const char* forced = std::getenv("STROBE_CPU_ISA");
  return forced ? forced : "";
}

std::string instruction_set_refusal(const char* forced) {
  if (!*forced) return {};
  for (const InstructionSet& one : instruction_sets()) {
    if (one.available && std::string_view(one.name) == forced) return {};
  }
  std::string names;
  for (const InstructionSet& one : instruction_sets()) {
    if (one.available) names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  return fmt::format("STROBE_CPU_ISA is '{}'; this machine and build have {}", forced, names);
}

}  // namespace strobe
