// Every kernel of the library by name. A new one: declare it here, add a row to kernel_list.cpp.
#pragma once

#include "attention/kernel.h"

namespace strobe {

extern const Kernel kFlash2Cpu;     // cpu/flash2.cpp
extern const Kernel kFrugalCpu;     // standard/standard.cpp
extern const Kernel kStandardCpu;   // standard/standard.cpp
extern const Kernel kReferenceCpu;  // reference/reference.cpp
extern const Kernel kHopperCuda;    // cuda/hopper.cpp
extern const Kernel kFlash2Cuda;    // cuda/flash2.cpp
extern const Kernel kFrugalCuda;    // standard/cuda/standard.cpp
extern const Kernel kStandardCuda;  // standard/cuda/standard.cpp

}  // namespace strobe
