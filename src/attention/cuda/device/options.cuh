// What changes a score between q.k and the mask, and dropout: the order and the bits of the specification.
#pragma once

#include "attention/cuda/device/philox.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/tile.cuh"

namespace strobe::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// tanh in three qualities: by one instruction, relative error 2^-11, which bf16 does not see; by one exponential and
// one reciprocal, absolute error about 1e-7; and to fp32's last digits.
template <class T>
__device__ __forceinline__ float tanh_of(float x) {
  if constexpr (kPlanes<T> == 3) {
    return tanhf(x);
  } else if constexpr (kIsBf16<T>) {
    return tanh_fast(x);
  } else {
    return 1 - 2 * reciprocal_fast(1 + exp2_fast(x * (2 * kLog2E)));
  }
}

// The options of one (sequence, query head). Branches are the same for the whole block and stand outside of the loops
// over accumulators, whose rows are row + 16 m + 8 h and whose keys are column + 8 n + e for this lane.
struct ScoreOptions {
  float scale, softcap, slope;  // slope of ALiBi
  const char* bias;             // of row 0, key 0
  std::int64_t bias_row;
  bool bias_fp32, bias_pairs;  // pairs: two neighbouring keys are one load
  std::uint32_t threshold;
  Philox philox;

  __device__ __forceinline__ ScoreOptions(const Params& p, int batch, int head)
      : scale(p.scale),
        softcap(p.softcap),
        slope(p.alibi_slopes ? p.alibi_slopes[head] : 0),
        bias(nullptr),
        bias_row(p.bias.row),
        bias_fp32(p.bias_fp32),
        bias_pairs(false),
        threshold(p.dropout_threshold),
        philox(p, static_cast<std::uint32_t>(batch), static_cast<std::uint32_t>(head)) {
    if (p.bias.data) {
      const int bytes = bias_fp32 ? 4 : 2;
      bias = static_cast<const char*>(p.bias.data) + (batch * p.bias.batch + head * p.bias.head) * bytes;
      bias_pairs = reinterpret_cast<std::uintptr_t>(bias) % (2 * bytes) == 0 && bias_row % 2 == 0;
    }
  }

  // q.k becomes the score in natural units. `slopes` become the derivative of the cap, where there is one.
  template <class T, int kMt, int kNt, class Slopes>
  __device__ __forceinline__ void apply(float (&s)[kMt][kNt][4], Slopes& slopes, int row, int column,
                                        const Sequence& sequence) const {
    if (softcap != 0) {
      const float inner = scale / softcap;
      for_each(s, [&](int m, int n, int e) {
        const float t = tanh_of<T>(s[m][n][e] * inner);
        s[m][n][e] = multiply_rounded(softcap, t);
        slopes.set(m, n, e, 1 - t * t);
      });
    } else {
      for_each(s, [&](int m, int n, int e) { s[m][n][e] = multiply_rounded(s[m][n][e], scale); });
    }
    if (slope != 0) {
      const auto distance = static_cast<float>(row + sequence.offset - column);
      for_each(s, [&](int m, int n, int e) {
        const float away = fabsf(distance + static_cast<float>(m * 16 + e / 2 * 8 - n * 8 - e % 2));
        s[m][n][e] = fmaf(-slope, away, s[m][n][e]);
      });
    }
    if (bias) add_bias<T>(s, row, column, sequence);
  }

  // Asks for the bias of these scores early: lanes of a quad fetch the lines of their rows before the product is there.
  template <int kMt, int kNt>
  __device__ __forceinline__ void prefetch_bias(int row, int column, const Sequence& sequence) const {
    if (!bias) return;
    const int bytes = bias_fp32 ? 4 : 2;
    const int line = lane_index() % 4 * (128 / bytes);  // keys from the first of this tile
    const int key = column - lane_index() % 4 * 2 + line;
    if (line >= kNt * 8 || key >= sequence.k_length) return;
#pragma unroll
    for (int r = 0; r < 2 * kMt; ++r) {
      if (row + r * 8 < sequence.q_length) prefetch_line(bias + ((row + r * 8) * bias_row + key) * bytes);
    }
  }

  // keep(m, n, e, kept): whether dropout keeps each weight.
  template <int kMt, int kNt, class Keep>
  __device__ __forceinline__ void drop(const float (&)[kMt][kNt][4], int row, int column, Keep&& keep) const {
    Philox::Row rows[2 * kMt];
#pragma unroll
    for (int r = 0; r < 2 * kMt; ++r) rows[r] = philox.row(row + r * 8);
#pragma unroll
    for (int n = 0; n < kNt; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const Philox::Key key = philox.key(column + n * 8 + e);
#pragma unroll
        for (int r = 0; r < 2 * kMt; ++r) keep(r / 2, n, r % 2 * 2 + e, philox.word(rows[r], key) >= threshold);
      }
    }
  }

 private:
  // Rows and keys beyond the sequence have no bias.
  template <class T, int kMt, int kNt>
  __device__ __forceinline__ void add_bias(float (&s)[kMt][kNt][4], int row, int column,
                                           const Sequence& sequence) const {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = row + m * 16 + half * 8;
        if (i >= sequence.q_length) continue;
        const std::int64_t first = i * bias_row + column;
        const auto* wide = reinterpret_cast<const float*>(bias) + first;
        const auto* narrow = reinterpret_cast<const ElementType<T>*>(bias) + first;
        const bool whole = bias_pairs && column + kNt * 8 <= sequence.k_length;
#pragma unroll
        for (int n = 0; n < kNt; ++n) {
          float& low = s[m][n][2 * half];
          float& high = s[m][n][2 * half + 1];
          if (whole && bias_fp32) {
            const float2 two = *reinterpret_cast<const float2*>(wide + n * 8);
            low += two.x, high += two.y;
          } else if (whole && kPlanes<T> == 1) {
            const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(narrow + n * 8);
            low += low_half<T>(two), high += high_half<T>(two);
          } else {
            if (column + n * 8 < sequence.k_length) low += bias_fp32 ? wide[n * 8] : to_float<T>(narrow[n * 8]);
            if (column + n * 8 + 1 < sequence.k_length) {
              high += bias_fp32 ? wide[n * 8 + 1] : to_float<T>(narrow[n * 8 + 1]);
            }
          }
        }
      }
    }
  }
};

// Where slopes of the cap go: nowhere in the forward pass, registers in the backward pass.
struct NoSlopes {
  __device__ __forceinline__ void set(int, int, int, float) {}
};

template <int kMt, int kNt>
struct CapSlopes {
  float value[kMt][kNt][4];
  __device__ __forceinline__ void set(int m, int n, int e, float slope) { value[m][n][e] = slope; }
};

}  // namespace strobe::cuda
