// Loops for AVX2 with FMA. Matmuls use 6 x 16 tiles: 12 accumulators, and three registers for operands.
#include "core/simd_panel.h"
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaAvx2;
const Isa kIsaAvx2 = make_isa("avx2", cpu::PanelProduct<6>::kColumns, cpu::PanelProduct<6>::multiply);
}  // namespace strobe::ops
