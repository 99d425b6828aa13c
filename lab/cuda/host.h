// Host side of the GPU rungs: memory, copies and clocks. Every GPU rung calls run_in_turn() or run_on_streams() with a
// function that launches its kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "device/cuda/check.h"
#include "lab/rung.h"

namespace strobe::lab {

// A problem, or a range of its batches, in GPU memory.
struct Tensors {
  int batch = 0, rows = 0, dim = 0;
  std::int64_t pitch = 0;                                // floats between rows: dim or more
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // [batch, rows, pitch]
  float* o = nullptr;                                    // [batch, rows, pitch]
  float *m = nullptr, *l = nullptr;  // [batch, rows]: running maximum of the scores, and running sum
  float scale = 0;                   // 1 / sqrt(dim)
};

inline Tensors batch_of(Tensors t, int batch) {
  const std::int64_t row = std::int64_t{batch} * t.rows;
  t.batch = 1;
  t.q += row * t.pitch;
  t.k += row * t.pitch;
  t.v += row * t.pitch;
  t.o += row * t.pitch;
  t.m += row;
  t.l += row;
  return t;
}

enum class RowPitch { packed, pitched };  // pitched: cudaMallocPitch, each row at an aligned address

// Allocates, copies in, launches, waits and copies out, one after the other on the default stream.
Split run_in_turn(const RungProblem& problem, float* o, RowPitch layout,
                  const std::function<Launches(const Tensors&)>& launch);

struct Streams {
  int count = 1;        // 1: one for all work; 4: one each for copies of Q, K, V and O, plus a fifth for kernels
  bool pinned = false;  // copies from page-locked memory, which is filled before the clock starts
  RowPitch layout = RowPitch::pitched;
};

inline constexpr int kMostChunks = 8;

// Like run_in_turn(), but queues all work on streams and waits once. With 4 streams, batches are copied and computed in
// min(batch, kMostChunks) chunks, so that copies overlap with kernels. Chunk sizes differ by at most one batch.
Split run_on_streams(const RungProblem& problem, float* o, const Streams& streams,
                     const std::function<Launches(const Tensors&, cudaStream_t)>& launch);

}  // namespace strobe::lab
