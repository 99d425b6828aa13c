// Portable engine: fp32 matmul on GCC's vector extensions, for machines without a specialized engine. It is the
// shortest one, so read it first. table.h documents the contract of an engine.
#pragma once

#include "core/simd.h"
#include "strobe/dtype.h"

namespace strobe::cpu {
namespace {

struct GenericEngine {
  using Element = float;
  static constexpr DType kCompute = DType::fp32;
  static constexpr int kM = 4, kN = 2 * kLanes, kCols = kN, kK = 1, kP = 1;

  template <int Width>
  static void product(const float* m, const float* n, int steps, float* c, bool accumulate) {
    constexpr int kV = Width / kLanes;
    F32 sum[kM][kV] = {};
    for (int t = 0; t < steps; ++t, m += kM, n += Width) {
      for (int v = 0; v < kV; ++v) {
        const F32 b = load(n + v * kLanes);
        for (int r = 0; r < kM; ++r) sum[r][v] = fma(broadcast(m[r]), b, sum[r][v]);
      }
    }
    for (int r = 0; r < kM; ++r) {
      for (int v = 0; v < kV; ++v) {
        float* out = c + r * Width + v * kLanes;
        store(out, accumulate ? load(out) + sum[r][v] : sum[r][v]);
      }
    }
  }

  static void tile_to_m(const float* tile, float* out) {
    for (int t = 0; t < kN; ++t) {
      for (int r = 0; r < kM; ++r) out[t * kM + r] = tile[r * kN + t];
    }
  }
};

}  // namespace
}  // namespace strobe::cpu
