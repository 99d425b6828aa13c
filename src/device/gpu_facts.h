// GPU properties that choose() and the kernels' plans need. Plain numbers, so that tests can describe any GPU.
#pragma once

#include <cstddef>
#include <string>

namespace strobe {

struct GpuFacts {
  int compute_capability = 0;              // 10 * major + minor: 80, 86, 90
  std::size_t shared_bytes_per_block = 0;  // opt-in limit per block
  int multiprocessors = 0;
};

struct CurrentGpu {
  std::string reason;  // why no GPU can be used; empty if one can
  int index = 0;
  GpuFacts facts;
};

// Returns the calling thread's current GPU. Queries the driver once per GPU; later calls take well under a microsecond.
// The environment variable STROBE_CUDA_SHARED_KB lowers shared_bytes_per_block to imitate a smaller GPU.
CurrentGpu current_gpu();

// Number of GPUs that this process sees; 0 if none can be used. Creates no context.
int gpu_count();

// Makes that GPU the calling thread's current one.
void use_gpu(int index);

// Applies STROBE_CUDA_SHARED_KB (`kilobytes`; null or empty: unset) to a GPU's limit. Throws Error(invalid_argument)
// for text that is not a positive integer.
std::size_t limited_shared_bytes(std::size_t bytes, const char* kilobytes);

}  // namespace strobe
