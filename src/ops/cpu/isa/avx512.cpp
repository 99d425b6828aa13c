// Loops for AVX-512 F, BW, VL and DQ. Matmuls use 12 x 32 tiles: 24 accumulators, and three registers for operands.
#include "core/simd_panel.h"
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaAvx512;
const Isa kIsaAvx512 = make_isa("avx512", cpu::PanelProduct<12>::kColumns, cpu::PanelProduct<12>::multiply);
}  // namespace strobe::ops
