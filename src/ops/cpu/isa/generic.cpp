// Loops for the baseline architecture; OpenBLAS runs the matmuls.
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaGeneric;
const Isa kIsaGeneric = make_isa("generic", 0, nullptr);
}  // namespace strobe::ops
