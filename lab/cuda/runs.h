// Functions of the GPU rungs. list.cpp maps names to them.
#pragma once

#include "lab/cuda/host.h"

namespace strobe::lab {

Split run_five_kernels(const RungProblem& problem, float* o);
Split run_shared(const RungProblem& problem, float* o);
Split run_padded(const RungProblem& problem, float* o);
Split run_pitched(const RungProblem& problem, float* o);
Split run_unrolled(const RungProblem& problem, float* o);
Split run_coalesced(const RungProblem& problem, float* o);
Split run_registers(const RungProblem& problem, float* o);
Split run_q_stationary(const RungProblem& problem, float* o);
Split run_float4(const RungProblem& problem, float* o);
Split run_fast_math(const RungProblem& problem, float* o);
Split run_one_stream(const RungProblem& problem, float* o);
Split run_four_streams(const RungProblem& problem, float* o);
Split run_pinned(const RungProblem& problem, float* o);
Split run_library(const RungProblem& problem, float* o);

// Launches the kernel of rung `fast-math`, which the stream rungs use too.
Launches launch_fast_math(const Tensors& tensors, cudaStream_t stream);

}  // namespace strobe::lab
