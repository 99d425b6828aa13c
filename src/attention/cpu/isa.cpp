// Selects the table of kernels (Isa) for a problem. Candidates are the tables in this build that the machine supports
// (device/host/instruction_sets.h). Called by plan.cpp and matmul_rate.cpp.
#include "attention/cpu/isa.h"

#include <array>
#include <cstring>
#include <string>

#include "core/fail.h"
#include "device/host/instruction_sets.h"

namespace strobe::cpu {

extern const Isa kIsaGeneric, kIsaNeon, kIsaNeonBf16, kIsaAvx2, kIsaAvx512, kIsaAvx512Bf16, kIsaAmx, kIsaAmxFp32;

namespace {

// In the order of instruction_sets(), least capable first.
#if defined(__x86_64__)
constexpr std::array<const Isa*, 6> kTables{&kIsaGeneric,    &kIsaAvx2, &kIsaAvx512,
                                            &kIsaAvx512Bf16, &kIsaAmx,  &kIsaAmxFp32};
#elif defined(__aarch64__)
constexpr std::array<const Isa*, 3> kTables{&kIsaGeneric, &kIsaNeon, &kIsaNeonBf16};
#else
constexpr std::array<const Isa*, 1> kTables{&kIsaGeneric};
#endif

bool available(const Isa& table) {
  for (const InstructionSet& set : instruction_sets()) {
    if (std::strcmp(set.name, table.name) == 0) return set.available;
  }
  return false;
}

// Returns true if a table's panels can hold a type: bf16 panels hold only bf16, split floats only fp32, and fp32 panels
// every type.
bool serves(const Isa& table, DType dtype, Terms terms) {
  if (table.compute == DType::bf16) return dtype == DType::bf16;
  return table.terms == 1 || (dtype == DType::fp32 && terms == Terms::allowed);
}

}  // namespace

const Isa* find_isa(const char* name, DType compute) {
  for (const Isa* table : kTables) {
    if (std::strcmp(table->name, name) == 0 && table->compute == compute && available(*table)) return table;
  }
  return nullptr;
}

// Returns the most capable available table that can hold the type, among those up to `forced` if that is not "".
const Isa& choose_isa(DType dtype, const char* forced, Terms terms) {
  std::size_t last = kTables.size();
  if (*forced) {
    if (const std::string refusal = instruction_set_refusal(forced); !refusal.empty()) {
      fail(ErrorCode::unsupported, "attention: {}", refusal);
    }
    while (std::strcmp(kTables[last - 1]->name, forced) != 0) --last;
  }
  for (std::size_t i = last; i-- > 0;) {
    if (available(*kTables[i]) && serves(*kTables[i], dtype, terms)) return *kTables[i];
  }
  return kIsaGeneric;
}

}  // namespace strobe::cpu
