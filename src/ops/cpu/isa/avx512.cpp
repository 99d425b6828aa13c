// Inner loops for AVX-512 F, BW, VL and DQ. A 12 x 32 matmul tile takes 24 registers for accumulators and three for
// operands.
#include "core/simd_panel.h"
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaAvx512;
const Isa kIsaAvx512 = make_isa("avx512", cpu::PanelMatmul<12>::kColumns, cpu::PanelMatmul<12>::matmul);
}  // namespace strobe::ops
