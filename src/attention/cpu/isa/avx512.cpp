// flash2's kernels for AVX-512 F, BW, VL and DQ. Common head dimensions are multiples of the 8 x 32 tile's sides.
#include "attention/cpu/isa/engine_broadcast.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaAvx512;
const Isa kIsaAvx512 = make_isa<BroadcastEngine<8, 32, 8>>("avx512");
}  // namespace strobe::cpu
