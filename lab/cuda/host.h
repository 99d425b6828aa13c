// The host's half of the GPU rungs: memory, copies and clocks. Every rung's run() calls one of the two functions below;
// what differs from rung to rung is in the rungs' own files.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "device/cuda/check.h"
#include "lab/rung.h"

namespace strobe::lab {

// A problem, or some of its batches, in the GPU's memory.
struct Tensors {
  int batch = 0, rows = 0, dim = 0;
  std::int64_t pitch = 0;                                // floats from a row to the next: dim, or more
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // [batch, rows, pitch]
  float* o = nullptr;                                    // likewise
  float *m = nullptr, *l = nullptr;                      // [batch, rows]: running largest score and sum
  float scale = 0;                                       // 1 / sqrt(dim)
};

enum class Layout { packed, pitched };  // pitched: cudaMallocPitch, each row at an aligned address

// Allocates, copies in, launches, waits, copies out: one after the other on the default stream.
Split run_in_turn(const Problem& problem, float* o, Layout layout, const std::function<void(const Tensors&)>& launch);

struct Streams {
  int count = 1;        // 1: everything on it; 4: copies of Q, K, V and O on one each, kernels on a fifth
  bool pinned = false;  // through page-locked memory, where the caller's inputs are copied to before the clock starts
  Layout layout = Layout::pitched;
};

inline constexpr int kMostChunks = 8;

// The same queued on streams and waited for once. With 4 streams the batches go in min(batch, kMostChunks) chunks that
// differ by one batch at most, so that there is something to copy while a kernel runs.
Split run_on_streams(const Problem& problem, float* o, const Streams& streams,
                     const std::function<void(const Tensors&, cudaStream_t)>& launch);

}  // namespace strobe::lab
