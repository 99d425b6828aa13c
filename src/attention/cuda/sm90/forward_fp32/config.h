// Tile configuration of the Hopper forward for fp32: constexpr functions of the problem and the GPU, used by the
// kernel, its launch, `strobe explain` and tests. The kernel represents each element, times a power of two, by two fp16
// floats (device/split_format.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cuda/sm90/forward/config.h"

namespace strobe::cuda::sm90 {

// Splitter warpgroups split elements into two fp16 floats. Consumer warpgroups run the matmuls, 64 rows each. An item
// is the group of rows that the splitters load and split together (items.cuh).
struct Fp32Shape {
  int splitters, consumers;  // numbers of warpgroups
  int keys;                  // keys per tile
  int stages, q_stages;      // pipeline stages of K and of V, and of Q, in shared memory
  int pieces;  // items in a splitter thread's registers: one is being split, the loads of the others are in flight

  friend constexpr bool operator==(const Fp32Shape&, const Fp32Shape&) = default;
};

struct Fp32Rule {
  int d;  // padded head dimension
  Fp32Shape shape;
};

// Chosen by the budget in docs/kernels-cuda.md; the kernels of these shapes do not spill.
inline constexpr Fp32Rule kFp32Rules[] = {
    {64, {2, 2, 64, 4, 2, 2}},
    {128, {2, 2, 64, 2, 1, 1}},
};

// Up to this head dimension flash2 is faster by a third: it has tiles of 32 columns, while this kernel pads to 64.
inline constexpr int kFewFp32Dims = 32;

constexpr int rows_of(const Fp32Shape& shape) { return 64 * shape.consumers; }
constexpr int threads_of(const Fp32Shape& shape) { return 128 * (shape.splitters + shape.consumers); }

// Rows of Q, K or V per item: 16 elements per splitter thread.
constexpr int piece_rows(int d, const Fp32Shape& shape) { return 128 * shape.splitters * 16 / d; }

// Splitter threads keep their items in registers; consumer threads get the rest of the 64 K registers.
constexpr int splitter_registers(const Fp32Shape& shape) { return 40 + 16 * shape.pieces; }
constexpr int consumer_registers(const Fp32Shape& shape) {
  return (512 - shape.splitters * splitter_registers(shape)) / shape.consumers / 8 * 8;
}

// Bytes of shared memory: both split floats of the stages of Q, K and V, then the other buffers of Fp32Memory
// (items.cuh).
constexpr std::size_t fp32_tile_bytes(int d, const Fp32Shape& shape) {
  return static_cast<std::size_t>(4 * d) * (shape.q_stages * rows_of(shape) + 2 * shape.stages * shape.keys);
}
constexpr std::size_t fp32_scale_bytes(const Fp32Shape& shape) {
  return static_cast<std::size_t>(4) * (shape.q_stages * rows_of(shape) + 2 * shape.stages * shape.keys) +
         static_cast<std::size_t>(2 * 16) * shape.stages;
}
constexpr int fp32_barriers(const Fp32Shape& shape) { return 2 * shape.q_stages + 4 * shape.stages; }
inline constexpr std::size_t kFp32ExchangeBytes = 8 * 64;  // exchange between splitter warps
constexpr std::size_t fp32_shared_bytes(int d, const Fp32Shape& shape) {
  return fp32_tile_bytes(d, shape) + fp32_scale_bytes(shape) + kFp32ExchangeBytes +
         static_cast<std::size_t>(8 * fp32_barriers(shape) + 16 * shape.q_stages);
}

struct Fp32Config {
  int d = 0;  // padded head dimension of q, k, v and o
  Fp32Shape shape{};
  std::size_t shared_bytes = 0;
  int splits = 1;  // split-K: blocks per row tile
};

inline constexpr int kMostFp32Dim = 128;

// Head dimensions must be at most kMostFp32Dim.
constexpr Fp32Config fp32_config(const ForwardFacts& facts) {
  Fp32Config config{.d = facts.d <= 64 && facts.dv <= 64 ? 64 : kMostFp32Dim};
  for (const Fp32Rule& rule : kFp32Rules) {
    if (rule.d == config.d) config.shape = rule.shape;
  }
  config.shared_bytes = fp32_shared_bytes(config.d, config.shape);
  config.splits = filling_splits(facts.heads * ceil_div(facts.max_seqlen_q, rows_of(config.shape)),
                                 ceil_div(facts.max_seqlen_k, config.shape.keys), facts.multiprocessors);
  return config;
}

}  // namespace strobe::cuda::sm90
