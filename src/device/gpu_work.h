// Prepares the calling thread for GPU work, and sets tensors to zero. No function waits for the GPU. Called by the
// attention library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe {

// Makes sure that this thread has a CUDA context, even if this is its first GPU call. Throws if an earlier CUDA call of
// this thread left an unreported error; later work would otherwise report it as its own. Clears the error if the GPU is
// still usable.
void begin_gpu_work();

// A strided tensor in GPU memory.
struct GpuElements {
  void* data = nullptr;
  std::size_t bytes = 4;  // per element: 2 or 4
  std::int64_t shape[4] = {}, stride[4] = {};
};

// Sets every element to zero, but not the gaps between them. `stream` is a cudaStream_t.
void clear_on_gpu(const GpuElements& elements, void* stream);

}  // namespace strobe
