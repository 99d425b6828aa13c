// Implements chosen_isa(), which selects the table of inner loops for this machine.
#include "ops/cpu/isa.h"

#include <string>
#include <string_view>

#include "core/fail.h"
#include "device/host/instruction_sets.h"

namespace strobe::ops {

extern const Isa kIsaGeneric, kIsaAvx2, kIsaAvx512;

namespace {

// On Arm the generic loops already use NEON, which its baseline architecture includes. Instruction sets beyond AVX-512
// only add matmuls of 16-bit types, which these loops do not use.
const Isa& table_of(std::string_view name) {
#if defined(__x86_64__)
  if (name == "avx2") return kIsaAvx2;
  if (name.starts_with("avx512") || name == "amx") return kIsaAvx512;
#endif
  static_cast<void>(name);
  return kIsaGeneric;
}

}  // namespace

const Isa& chosen_isa() {
  const char* const forced = forced_instruction_set();
  if (*forced) {
    if (const std::string refusal = instruction_set_refusal(forced); !refusal.empty()) {
      fail(ErrorCode::unsupported, "ops: {}", refusal);
    }
    return table_of(forced);
  }
  const char* best = "";
  for (const InstructionSet& one : instruction_sets()) {
    if (one.available) best = one.name;
  }
  return table_of(best);
}

}  // namespace strobe::ops
