// The ideas of the best hand-written kernel and of what goes on around it. ablation.cpp calls the launchers.
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

void launch_without(Idea idea, const Tensors& tensors, cudaStream_t stream);  // compiled with --use_fast_math
void launch_without_fast_math(const Tensors& tensors, cudaStream_t stream);   // the whole kernel, without

}  // namespace strobe::lab
