// flash2's kernels for Arm with NEON, which every aarch64 machine has.
#include "attention/cpu/isa/engine_neon.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaNeon;
const Isa kIsaNeon = make_isa<NeonEngine>("neon");
}  // namespace strobe::cpu
