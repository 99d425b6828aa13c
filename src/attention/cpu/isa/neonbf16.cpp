// flash2's kernels for Arm with bf16 matrix instructions (BFMMLA), only for bf16 problems.
#include "attention/cpu/isa/engine_neonbf16.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaNeonBf16;
const Isa kIsaNeonBf16 = make_isa<NeonBf16Engine>("neonbf16");
}  // namespace strobe::cpu
