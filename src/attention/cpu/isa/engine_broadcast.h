// fp32 micro-kernel that broadcasts each row element of the M chunk to a vector and multiplies it with the N chunk's
// columns. Instruction sets differ only in the size of the tile of M x N accumulators, which uses most of the vector
// registers. Included by avx2.cpp and avx512.cpp. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/pack_blocks.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

template <int M, int N, int K>
struct BroadcastEngine : BlockPack<M, N, K> {
  using Element = float;
  static constexpr DType kCompute = DType::fp32;
  static constexpr int kM = M;
  static constexpr int kN = N;
  static constexpr int kCols = N;
  static constexpr int kK = K;
  static constexpr int kP = 1;

  // Computes C[M][Width] (+)= the M panel [steps / K][M][K] times the N panel [steps][Width].
  template <int Width>
  static void product(const float* m, const float* n, int steps, float* c, bool accumulate) {
    constexpr int kVectors = Width / kLanes;
    F32 sum[M][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = F32{};
    }
    for (int t = 0; t < steps; t += K) {
#pragma GCC unroll 8
      for (int u = 0; u < K; ++u) {
        F32 column[kVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) column[v] = load(n + u * Width + v * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < M; ++r) {
          const F32 row = broadcast(m[r * K + u]);
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) multiply_add(sum[r][v], row, column[v]);
        }
      }
      m += M * K;
      n += Width * K;
    }
    // C is added at the end, because sums that start from C would round every step at the magnitude of the final sum.
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        float* at = c + r * Width + v * kLanes;
        store(at, accumulate ? load(at) + sum[r][v] : sum[r][v]);
      }
    }
  }

  // Converts a tile [M keys][N lanes] to N / K M chunks [M][K].
  static void tile_to_m(const float* tile, float* out) {
    static_assert(N % K == 0);
    for (int r = 0; r < M; ++r) {
      for (int chunk = 0; chunk < N / K; ++chunk) {
        __builtin_memcpy(out + (chunk * M + r) * K, tile + r * N + chunk * K, K * sizeof(float));
      }
    }
  }
};

}  // namespace
}  // namespace strobe::cpu
