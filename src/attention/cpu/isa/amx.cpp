// flash2's kernels for AMX: bf16 problems, and fp32 problems with split floats. Other problems use the AVX-512 kernels.
#include "attention/cpu/isa/engine_amx.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaAmx, kIsaAmxFp32;
const Isa kIsaAmx = make_isa<EngineAmx<1>>("amx");
const Isa kIsaAmxFp32 = make_isa<EngineAmx<3>>("amx");
}  // namespace strobe::cpu
