// flash2's inner code for AMX, bf16 problems only; others use avx512.cpp's.
#include "attention/cpu/isa/engine_amx.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaAmx;
const Isa kIsaAmx = make_isa<EngineAmx>("amx");
}  // namespace strobe::cpu
