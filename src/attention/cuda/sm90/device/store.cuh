// Stores MMA accumulators of Hopper kernels: rounded to rows in global memory, as fp32 to shared memory for another
// warpgroup, or rounded to an operand tile in shared memory.
#pragma once

#include <cstdint>

#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// Stores rows `row` and `row` + 8 of a thread's accumulators, rounded to T, 16 bytes at a time. Skips rows outside [0,
// rows) and columns from `columns` on (a multiple of 8).
template <class T, int kN>
__device__ __forceinline__ void store_two_rows(const float (&c)[kN / 2], std::uint16_t* to, std::int64_t stride,
                                               int columns, int row, int rows) {
  const int quarter = lane_index() % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    std::uint16_t* const begin = to + (row + 8 * h) * stride;
#pragma unroll
    for (int n = 0; n < kN / 8; n += 4) {
      std::uint32_t x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = n + i < kN / 8 ? pack<T>(c[4 * (n + i) + 2 * h], c[4 * (n + i) + 2 * h + 1]) : 0;
      }
      transpose_quad(x);
      const int column = (n + quarter) * 8;
      if (row + 8 * h >= 0 && row + 8 * h < rows && column < columns) {
        *reinterpret_cast<uint4*>(begin + column) = make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  }
}

// Address in shared memory of this thread's i-th group of four accumulators. A warpgroup's i-th groups are 2 KB.
__device__ __forceinline__ std::uint32_t four_at(std::uint32_t place, int i, int thread) {
  return place + static_cast<std::uint32_t>(i * 128 + thread) * 16;
}
__device__ __forceinline__ void store_four(std::uint32_t place, int i, int thread, const float* c) {
  const std::uint32_t four[4] = {float_to_bits(c[0]), float_to_bits(c[1]), float_to_bits(c[2]), float_to_bits(c[3])};
  store_shared(four_at(place, i, thread), four);
}
__device__ __forceinline__ void load_four(float (&c)[4], std::uint32_t place, int i, int thread) {
  std::uint32_t four[4];
  load_shared(four, four_at(place, i, thread));
#pragma unroll
  for (int e = 0; e < 4; ++e) c[e] = bits_to_float(four[e]);
}

// Stores four 8x8 matrices of 16-bit elements; lane l passes the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(std::uint32_t address, const std::uint32_t* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// store_matrices(), each matrix transposed: lane l passes the address of column l % 8 of matrix l / 8.
__device__ __forceinline__ void store_transposed_matrices(std::uint32_t address, const std::uint32_t* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// Stores rounded accumulators [64][4 kCount], transposed, to the columns [64 slab, 64 slab + 64) of a tile of 4 kCount
// rows, in MMA operand layout. thread: index in the warpgroup.
template <int kCount>
__device__ __forceinline__ void store_transposed_operand(std::uint32_t tile, const std::uint32_t (&a)[kCount], int slab,
                                                         int thread) {
  const int lane = thread % 32;
  const auto at = static_cast<std::uint32_t>((lane / 16 * 8 + lane % 8) * 128);
  const auto swizzled = static_cast<std::uint32_t>(((thread / 32 * 2 + lane / 8 % 2) ^ (lane % 8)) * 16);
  const std::uint32_t to = tile + static_cast<std::uint32_t>(slab) * kSlabBytes<4 * kCount> + at + swizzled;
#pragma unroll
  for (int k = 0; k < kCount / 4; ++k) store_transposed_matrices(to + k * 2048, a + 4 * k);
}

// Stores rounded accumulators [64][4 kCount] to columns [column, ...) of the rows [row, row + 64) of a tile of
// kTileRows rows, in MMA operand layout. row and column are multiples of 8; thread: index in the warpgroup.
template <int kTileRows, int kCount>
__device__ __forceinline__ void store_operand(std::uint32_t tile, const std::uint32_t (&a)[kCount], int row, int column,
                                              int thread) {
  const int lane = thread % 32;
  const auto at = static_cast<std::uint32_t>((row + thread / 32 * 16 + lane % 16) * 128);
  const auto swizzled = static_cast<std::uint32_t>(((lane / 16) ^ (lane % 8)) * 16);
#pragma unroll
  for (int k = 0; k < kCount / 4; ++k) {
    const auto bytes = static_cast<std::uint32_t>(column * 2 + k * 32);
    store_matrices(tile + bytes / 128 * kSlabBytes<kTileRows> + at + ((bytes % 128) ^ swizzled), a + 4 * k);
  }
}

}  // namespace strobe::cuda::sm90
