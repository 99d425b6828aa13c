// flash2's kernels for AVX512-BF16, only for bf16 problems; other problems use avx512.cpp.
#include "attention/cpu/isa/engine_avx512bf16.h"
#include "attention/cpu/isa/table.h"

namespace strobe::cpu {
extern const Isa kIsaAvx512Bf16;
const Isa kIsaAvx512Bf16 = make_isa<EngineAvx512Bf16>("avx512bf16");
}  // namespace strobe::cpu
