// The ideas that the ablation leaves out of rung `pinned`, one at a time, and functions that launch the kernel of that
// rung without one idea. Used by ablation.cpp.
#pragma once

#include "lab/cuda/host.h"

namespace strobe::lab {

enum class Idea {
  none,
  padded,
  pitched,
  unrolled,
  coalesced,
  registers,
  q_stationary,
  float4,
  fast_math,
  streams,
  pinned
};

// Launches the kernel without `idea`, compiled with --use_fast_math. For an idea of the host code (pitched, streams,
// pinned), launches the complete kernel.
Launches launch_without(Idea idea, const Tensors& tensors, cudaStream_t stream);

// Launches the kernel with all ideas, compiled without --use_fast_math.
Launches launch_without_fast_math(const Tensors& tensors, cudaStream_t stream);

}  // namespace strobe::lab
