// GPU tensors of one run of a rung; the destructor frees them. Used by in_turn.cpp and streams.cpp.
#pragma once

#include <memory>

#include "lab/cuda/host.h"

namespace strobe::lab {

struct FreeOnGpu {
  void operator()(float* data) const { cudaFree(data); }
};
using GpuFloats = std::unique_ptr<float, FreeOnGpu>;

class Memory {
 public:
  Memory(const RungProblem& problem, RowPitch layout);

  Tensors tensors(int first_batch, int batches) const;

  // Copy the batches [first, first + batches) from or to a host tensor [batch, rows, dim].
  void send_q(const float* host, int first, int batches, cudaStream_t stream) const;
  void send_k(const float* host, int first, int batches, cudaStream_t stream) const;
  void send_v(const float* host, int first, int batches, cudaStream_t stream) const;
  void receive(float* host, int first, int batches, cudaStream_t stream) const;

 private:
  void send(float* to, const float* host, int first, int batches, cudaStream_t stream) const;
  std::int64_t row(int batch) const { return std::int64_t{batch} * whole_.rows; }

  Tensors whole_{};
  GpuFloats q_, k_, v_, o_, m_, l_;
};

}  // namespace strobe::lab
