// flash2's kernels for AVX2 with FMA. A 6 x 16 tile takes twelve of the sixteen registers.
#include "attention/cpu/isa/engine_broadcast.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaAvx2;
const Isa kIsaAvx2 = make_isa<BroadcastEngine<6, 16, 4>>("avx2");
}  // namespace strobe::cpu
