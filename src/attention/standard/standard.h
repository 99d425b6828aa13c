// The kernels `standard` and `frugal`: plain attention over materialised scores. GEMMs go through OpenBLAS (CUDA:
// cuBLAS), and every intermediate tensor is rounded to the problem's type. `standard` is the baseline: it holds what
// plain attention holds in a tensor library, scores and probabilities of all heads. `frugal` holds a few heads' at a
// time; the chooser takes it where no tiled kernel fits.
#pragma once

#include "attention/kernel.h"

namespace strobe {

extern const Kernel kStandardCpu;
extern const Kernel kFrugalCpu;
extern const Kernel kStandardCuda;
extern const Kernel kFrugalCuda;

}  // namespace strobe
