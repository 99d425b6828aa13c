// What choose() and the kernels' plans need to know of a GPU: few numbers, so that tests can make up any card.
#pragma once

#include <cstddef>
#include <string>

namespace strobe {

struct GpuFacts {
  int compute_capability = 0;              // 10 * major + minor: 80, 86, 90
  std::size_t shared_bytes_per_block = 0;  // the most that a kernel can ask for
  int multiprocessors = 0;
};

struct CurrentGpu {
  std::string reason;  // why no GPU can be used; empty where there is one
  int index = 0;
  GpuFacts facts;
};

// The calling thread's current GPU. The driver is asked once for each GPU; later calls cost well under a microsecond.
// The environment variable STROBE_CUDA_SHARED_KB lowers shared_bytes_per_block, to run as a smaller card would.
CurrentGpu current_gpu();

// GPUs that this process sees; 0 where none can be used. Makes no context on any.
int gpu_count();

// Makes that GPU the calling thread's current one.
void use_gpu(int index);

// Applies STROBE_CUDA_SHARED_KB (`kilobytes`, null or empty: none) to a card's own limit; text that is not a positive
// whole number throws Error(invalid_argument).
std::size_t limited_shared_bytes(std::size_t bytes, const char* kilobytes);

}  // namespace strobe
