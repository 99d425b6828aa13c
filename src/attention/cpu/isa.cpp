// Which instruction sets are built in, which this machine has, and which one serves a problem.
#include "attention/cpu/isa.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/fail.h"

#if defined(__x86_64__)
#include "attention/cpu/amx_permission.h"
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace strobe::cpu {

extern const Isa kIsaGeneric, kIsaNeon, kIsaNeonBf16, kIsaAvx2, kIsaAvx512, kIsaAvx512Bf16, kIsaAmx;

namespace {

struct Entry {
  const char* name;
  const Isa* isa;
  bool (*available)();
};

bool always() { return true; }

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
bool has_amx() { return has_avx512bf16() && request_amx_permission(); }

// From the least to the most capable.
constexpr std::array<Entry, 5> kEntries{{{"generic", &kIsaGeneric, always},
                                         {"avx2", &kIsaAvx2, has_avx2},
                                         {"avx512", &kIsaAvx512, has_avx512},
                                         {"avx512bf16", &kIsaAvx512Bf16, has_avx512bf16},
                                         {"amx", &kIsaAmx, has_amx}}};
#elif defined(__aarch64__)
bool has_bf16() {
  constexpr unsigned long kHwcap2Bf16 = 1ul << 14;
  return (getauxval(AT_HWCAP2) & kHwcap2Bf16) != 0;
}

constexpr std::array<Entry, 3> kEntries{
    {{"generic", &kIsaGeneric, always}, {"neon", &kIsaNeon, always}, {"neonbf16", &kIsaNeonBf16, has_bf16}}};
#else
constexpr std::array<Entry, 1> kEntries{{{"generic", &kIsaGeneric, always}}};
#endif

const std::array<IsaName, kEntries.size()>& names() {
  static const auto list = [] {
    std::array<IsaName, kEntries.size()> made{};
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = {kEntries[i].name, kEntries[i].available()};
    return made;
  }();
  return list;
}

std::string available_names() {
  std::string text;
  for (const IsaName& isa : names()) {
    if (isa.available) text += (text.empty() ? "" : ", ") + std::string(isa.name);
  }
  return text;
}

}  // namespace

const IsaName* isa_names(int* count) {
  *count = static_cast<int>(names().size());
  return names().data();
}

const Isa* find_isa(const char* name) {
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    if (names()[i].available && std::strcmp(kEntries[i].name, name) == 0) return kEntries[i].isa;
  }
  return nullptr;
}

const char* forced_isa() {
  const char* forced = std::getenv("STROBE_CPU_ISA");
  return forced ? forced : "";
}

std::string isa_refusal(const char* forced) {
  if (!*forced || find_isa(forced)) return {};
  return fmt::format("STROBE_CPU_ISA is '{}'; this machine and build have {}", forced, available_names());
}

// A bf16 table serves bf16 problems; the others fall to the best fp32 table at or below the named one.
const Isa& choose_isa(DType dtype, const char* forced) {
  std::size_t last = kEntries.size();
  if (*forced) {
    if (const std::string refusal = isa_refusal(forced); !refusal.empty()) {
      fail(ErrorCode::unsupported, "attention: {}", refusal);
    }
    for (last = 1; std::strcmp(kEntries[last - 1].name, forced) != 0;) ++last;
  }
  for (std::size_t i = last; i-- > 0;) {
    if (names()[i].available && (kEntries[i].isa->compute == DType::fp32 || dtype == DType::bf16)) {
      return *kEntries[i].isa;
    }
  }
  return kIsaGeneric;
}

}  // namespace strobe::cpu
