// The loops for AVX-512 F, BW, VL and DQ; products on 12 x 32 tiles: 24 sums, and three registers for factors.
#include "ops/cpu/isa/product.h"
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaAvx512;
const Isa kIsaAvx512 = make_isa("avx512", PanelProduct<12>::kColumns, PanelProduct<12>::multiply);
}  // namespace strobe::ops
