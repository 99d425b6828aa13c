// Allocates GPU tensors, and copies rows of `dim` floats between contiguous host tensors and pitched GPU tensors.
#include "lab/cuda/memory.h"

#include <cmath>

namespace strobe::lab {
namespace {

GpuFloats allocate(std::size_t floats) {
  void* data = nullptr;
  STROBE_CUDA_CHECK(cudaMalloc(&data, floats * sizeof(float)));
  return GpuFloats(static_cast<float*>(data));
}

}  // namespace

Memory::Memory(const RungProblem& problem, RowPitch layout) {
  whole_ = {.batch = problem.batch, .rows = problem.rows, .dim = problem.dim, .pitch = problem.dim};
  whole_.scale = 1.0f / std::sqrt(static_cast<float>(problem.dim));
  const auto rows = static_cast<std::size_t>(problem.batch) * static_cast<std::size_t>(problem.rows);
  const auto dim = static_cast<std::size_t>(problem.dim);
  for (GpuFloats* tensor : {&q_, &k_, &v_, &o_}) {
    if (layout == RowPitch::packed) {
      *tensor = allocate(rows * dim);
      continue;
    }
    void* data = nullptr;
    std::size_t pitch = 0;
    STROBE_CUDA_CHECK(cudaMallocPitch(&data, &pitch, dim * sizeof(float), rows));
    tensor->reset(static_cast<float*>(data));
    whole_.pitch = static_cast<std::int64_t>(pitch / sizeof(float));
  }
  m_ = allocate(rows);
  l_ = allocate(rows);
}

Tensors Memory::tensors(int first, int batches) const {
  Tensors part = whole_;
  part.batch = batches;
  part.q = q_.get() + row(first) * whole_.pitch;
  part.k = k_.get() + row(first) * whole_.pitch;
  part.v = v_.get() + row(first) * whole_.pitch;
  part.o = o_.get() + row(first) * whole_.pitch;
  part.m = m_.get() + row(first);
  part.l = l_.get() + row(first);
  return part;
}

void Memory::send(float* to, const float* host, int first, int batches, cudaStream_t stream) const {
  const auto width = static_cast<std::size_t>(whole_.dim) * sizeof(float);
  STROBE_CUDA_CHECK(cudaMemcpy2DAsync(to + row(first) * whole_.pitch,
                                      static_cast<std::size_t>(whole_.pitch) * sizeof(float),
                                      host + row(first) * whole_.dim, width, width,
                                      static_cast<std::size_t>(row(batches)), cudaMemcpyHostToDevice, stream));
}

void Memory::send_q(const float* host, int first, int batches, cudaStream_t stream) const {
  send(q_.get(), host, first, batches, stream);
}

void Memory::send_k(const float* host, int first, int batches, cudaStream_t stream) const {
  send(k_.get(), host, first, batches, stream);
}

void Memory::send_v(const float* host, int first, int batches, cudaStream_t stream) const {
  send(v_.get(), host, first, batches, stream);
}

void Memory::receive(float* host, int first, int batches, cudaStream_t stream) const {
  const auto width = static_cast<std::size_t>(whole_.dim) * sizeof(float);
  STROBE_CUDA_CHECK(cudaMemcpy2DAsync(host + row(first) * whole_.dim, width, o_.get() + row(first) * whole_.pitch,
                                      static_cast<std::size_t>(whole_.pitch) * sizeof(float), width,
                                      static_cast<std::size_t>(row(batches)), cudaMemcpyDeviceToHost, stream));
}

}  // namespace strobe::lab
