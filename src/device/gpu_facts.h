// GPU properties that the plans of kernels need. They are plain numbers, so that tests can describe any GPU.
#pragma once

#include <cstddef>
#include <string>

namespace strobe {

struct GpuFacts {
  int compute_capability = 0;              // 10 * major + minor: 80, 86, 90
  std::size_t shared_bytes_per_block = 0;  // limit of shared memory per block with opt-in
  int multiprocessors = 0;
};

struct CurrentGpu {
  std::string reason;  // reason why no GPU can be used; empty if one can
  int index = 0;
  GpuFacts facts;
};

// Returns the calling thread's current GPU. Queries the driver once per GPU; later calls take well under a microsecond.
// The environment variable STROBE_CUDA_SHARED_KB lowers shared_bytes_per_block to simulate a smaller GPU.
CurrentGpu current_gpu();

// Returns the number of GPUs that this process sees, or 0 if none can be used. Does not create a context.
int gpu_count();

// Makes GPU `index` the calling thread's current one.
void use_gpu(int index);

// Returns min(bytes, 1024 * kilobytes). `bytes` is a GPU's limit, and `kilobytes` is the value of
// STROBE_CUDA_SHARED_KB. Returns `bytes` if the value is null or empty. Throws Error(invalid_argument) if the value is
// not an integer from 1 to 2^20.
std::size_t limited_shared_bytes(std::size_t bytes, const char* kilobytes);

}  // namespace strobe
