// Small pieces of work on the caller's stream that the library does itself, and what comes before any of it. Called by
// attention.cpp; nothing here waits for the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe {

// Makes this thread ready for work on the GPU, also where it is its first. Throws where an earlier CUDA call of it
// failed and nobody asked: that is not to be taken for a failure of what comes next. An error that leaves the GPU
// usable is reported once.
void begin_gpu_work();

// Elements of a strided tensor in the memory of the GPU.
struct GpuElements {
  void* data = nullptr;
  std::size_t bytes = 4;  // of one: 2 or 4
  std::int64_t shape[4] = {}, stride[4] = {};
};

// Zeros for every element, nothing between them. `stream` is a cudaStream_t.
void clear_on_gpu(const GpuElements& elements, void* stream);

}  // namespace strobe
