// The ordered list that choose() and explain() walk: fastest first, the reference last. Those of a device are walked
// for its problems only; CUDA has no reference, since float64 values are computed on the CPU.
#include "attention/kernel_list.h"

namespace strobe {

std::span<const Kernel> kernels() {
  static const Kernel list[] = {kFlash2Cpu,  kFrugalCpu,  kStandardCpu, kReferenceCpu,
                                kHopperCuda, kFlash2Cuda, kFrugalCuda,  kStandardCuda};
  return list;
}

}  // namespace strobe
