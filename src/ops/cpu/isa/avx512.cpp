// Inner loops for AVX-512 F, BW, VL and DQ. A 12 x 32 matmul tile takes 24 registers for accumulators and three for
// operands.
#include "ops/cpu/isa/product.h"
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaAvx512;
const Isa kIsaAvx512 = make_isa("avx512", PanelProduct<12>::kColumns, PanelProduct<12>::multiply);
}  // namespace strobe::ops
