// flash2's kernels for any machine, without intrinsics.
#include "attention/cpu/isa/engine_generic.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaGeneric;
const Isa kIsaGeneric = make_isa<GenericEngine>("generic");
}  // namespace strobe::cpu
