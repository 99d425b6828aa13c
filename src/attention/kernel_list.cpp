// The ordered list that choose() and explain() walk: fastest first, the reference last.
#include "attention/kernel_list.h"

namespace strobe {

std::span<const Kernel> kernels() {
  static const Kernel list[] = {kFlash2Cpu, kStandardCpu, kReferenceCpu};
  return list;
}

}  // namespace strobe
