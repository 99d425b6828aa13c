// The loops for the plain architecture; products are OpenBLAS's.
#include "ops/cpu/isa/table.h"

namespace strobe::ops {
extern const Isa kIsaGeneric;
const Isa kIsaGeneric = make_isa("generic", 0, nullptr);
}  // namespace strobe::ops
