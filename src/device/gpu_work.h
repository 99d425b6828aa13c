// Small operations of the library on the caller's stream, and the check before them. attention.cpp calls this. Nothing
// here waits for the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe {

// Gives this thread a context, also if this is its first GPU call. Throws if an earlier CUDA call of this thread left
// an unreported error, which must not be attributed to later work. Reports an error that leaves the GPU usable only
// once.
void begin_gpu_work();

// A strided tensor in GPU memory.
struct GpuElements {
  void* data = nullptr;
  std::size_t bytes = 4;  // per element: 2 or 4
  std::int64_t shape[4] = {}, stride[4] = {};
};

// Sets every element to zero and leaves the gaps between rows unchanged. `stream` is a cudaStream_t.
void clear_on_gpu(const GpuElements& elements, void* stream);

}  // namespace strobe
