// The kernel `standard`: what a person writes first, and the baseline that everything is compared with. Scores of a
// head (CUDA: of all heads) are materialised; products go through OpenBLAS (CUDA: cuBLAS); every intermediate tensor is
// rounded to the problem's type.
#pragma once

#include "attention/kernel.h"

namespace strobe {

extern const Kernel kStandardCpu;
extern const Kernel kStandardCuda;

}  // namespace strobe
