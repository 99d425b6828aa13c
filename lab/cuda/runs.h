// Functions of the GPU rungs. list.cpp maps names to them.
#pragma once

#include "lab/cuda/host.h"

namespace strobe::lab {

Split run_five_kernels(const Problem& problem, float* o);
Split run_shared(const Problem& problem, float* o);
Split run_padded(const Problem& problem, float* o);
Split run_pitched(const Problem& problem, float* o);
Split run_unrolled(const Problem& problem, float* o);
Split run_coalesced(const Problem& problem, float* o);
Split run_registers(const Problem& problem, float* o);
Split run_q_stationary(const Problem& problem, float* o);
Split run_float4(const Problem& problem, float* o);
Split run_fast_math(const Problem& problem, float* o);
Split run_one_stream(const Problem& problem, float* o);
Split run_four_streams(const Problem& problem, float* o);
Split run_pinned(const Problem& problem, float* o);
Split run_library(const Problem& problem, float* o);

// Launches the kernel of rung `fast-math`, which the stream rungs use too.
Launches launch_fast_math(const Tensors& tensors, cudaStream_t stream);

}  // namespace strobe::lab
