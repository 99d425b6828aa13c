// Inner loops for AVX2 with FMA. A 6 x 16 matmul tile takes 12 registers for accumulators and three for operands.
#include "core/simd_panel.h"
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaAvx2;
const Isa kIsaAvx2 = make_isa("avx2", cpu::PanelMatmul<6>::kColumns, cpu::PanelMatmul<6>::matmul);
}  // namespace strobe::ops
