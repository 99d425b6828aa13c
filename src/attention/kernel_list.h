// Declares the plan functions of all kernels. To add a kernel, declare its function here and add entries to
// kernel_list.cpp. A CUDA kernel also needs a stub in no_cuda.cpp.
#pragma once

#include "attention/kernel.h"

namespace strobe {

Plan plan_flash2(const Problem& problem);     // cpu/flash2.cpp
Plan plan_frugal(const Problem& problem);     // standard/standard.cpp
Plan plan_standard(const Problem& problem);   // standard/standard.cpp
Plan plan_reference(const Problem& problem);  // reference/reference.cpp

namespace cuda {

Plan plan_sm90_forward(const Problem& problem);        // cuda/sm90/forward/
Plan plan_sm90_decode(const Problem& problem);         // cuda/sm90/decode/; called by plan_sm90_forward
Plan plan_sm90_forward_fp32(const Problem& problem);   // cuda/sm90/forward_fp32/
Plan plan_sm90_backward(const Problem& problem);       // cuda/sm90/backward/
Plan plan_sm90_backward_fp32(const Problem& problem);  // cuda/sm90/backward_fp32/
Plan plan_sm80_forward(const Problem& problem);        // cuda/sm80/forward/
Plan plan_sm80_backward(const Problem& problem);       // cuda/sm80/backward/
Plan plan_frugal(const Problem& problem);              // standard/cuda/standard.cpp
Plan plan_standard(const Problem& problem);            // standard/cuda/standard.cpp

}  // namespace cuda
}  // namespace strobe
