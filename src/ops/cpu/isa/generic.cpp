// Inner loops for the baseline architecture, without `matmul`: OpenBLAS computes matmuls of more than one row.
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaGeneric;
const Isa kIsaGeneric = make_isa("generic", 0, nullptr);
}  // namespace strobe::ops
