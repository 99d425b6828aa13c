// Which of the built-in tables serves a problem. Which of them this machine has: device/host/instruction_sets.h.
#include "attention/cpu/isa.h"

#include <array>
#include <cstring>
#include <string>

#include "core/fail.h"
#include "device/host/instruction_sets.h"

namespace strobe::cpu {

extern const Isa kIsaGeneric, kIsaNeon, kIsaNeonBf16, kIsaAvx2, kIsaAvx512, kIsaAvx512Bf16, kIsaAmx;

namespace {

// One for each of instruction_sets(), in its order.
#if defined(__x86_64__)
constexpr std::array<const Isa*, 5> kTables{&kIsaGeneric, &kIsaAvx2, &kIsaAvx512, &kIsaAvx512Bf16, &kIsaAmx};
#elif defined(__aarch64__)
constexpr std::array<const Isa*, 3> kTables{&kIsaGeneric, &kIsaNeon, &kIsaNeonBf16};
#else
constexpr std::array<const Isa*, 1> kTables{&kIsaGeneric};
#endif

}  // namespace

const Isa* find_isa(const char* name) {
  const auto sets = instruction_sets();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].available && std::strcmp(sets[i].name, name) == 0) return kTables.at(i);
  }
  return nullptr;
}

// A bf16 table serves bf16 problems; the others fall to the best fp32 table at or below the named one.
const Isa& choose_isa(DType dtype, const char* forced) {
  const auto sets = instruction_sets();
  std::size_t last = sets.size();
  if (*forced) {
    if (const std::string refusal = instruction_set_refusal(forced); !refusal.empty()) {
      fail(ErrorCode::unsupported, "attention: {}", refusal);
    }
    for (last = 1; std::strcmp(sets[last - 1].name, forced) != 0;) ++last;
  }
  for (std::size_t i = last; i-- > 0;) {
    if (sets[i].available && (kTables[i]->compute == DType::fp32 || dtype == DType::bf16)) return *kTables[i];
  }
  return kIsaGeneric;
}

}  // namespace strobe::cpu
