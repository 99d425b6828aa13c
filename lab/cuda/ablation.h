// Ideas of the best hand-written rung: of its kernel and of its host code. ablation.cpp calls the launchers.
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

// The kernel without that idea, compiled with --use_fast_math.
Launches launch_without(Idea idea, const Tensors& tensors, cudaStream_t stream);

// The kernel with all ideas, compiled without --use_fast_math.
Launches launch_without_fast_math(const Tensors& tensors, cudaStream_t stream);

}  // namespace strobe::lab
