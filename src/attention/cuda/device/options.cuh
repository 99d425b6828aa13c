// Score options of the sm80 and fp32 kernels: scale, softcap, ALiBi, bias and boolean mask apply to q.k in this order,
// dropout to the probabilities.
#pragma once

#include "attention/cuda/device/dropout.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/tile.cuh"

namespace strobe::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// tanh: tanhf for fp32 types, otherwise the instruction tanh.approx. Its relative error of 2^-11 is no larger than that
// of rounding to fp16.
template <class T>
__device__ __forceinline__ float tanh_of(float x) {
  if constexpr (kIsFp32<T>) {
    return tanhf(x);
  } else {
    return tanh_fast(x);
  }
}

// Bias of one (sequence, query head).
struct BiasRows {
  const char* data;  // row 0, key 0; null: no bias
  std::int64_t row;  // elements from one row to the next

  __device__ __forceinline__ BiasRows(const ScoreParams& p, int batch, int head) : data(nullptr), row(p.bias.row) {
    if (!p.bias.data) return;
    data = static_cast<const char*>(p.bias.data) + (batch * p.bias.batch + head * p.bias.head) * (p.bias_fp32 ? 4 : 2);
  }
};

// Boolean mask of one (sequence, query head).
struct MaskRows {
  const unsigned char* data;  // row 0, key 0; null: no mask
  std::int64_t row, key;      // bytes from one row, or key, to the next

  __device__ __forceinline__ MaskRows(const ScoreParams& p, int batch, int head)
      : data(p.mask.data ? p.mask.data + batch * p.mask.batch + head * p.mask.head : nullptr),
        row(p.mask.row),
        key(p.mask.key) {}

  // Requires a mask.
  __device__ __forceinline__ bool allows(int i, int j) const { return data[i * row + j * key] != 0; }

  // True if row i may use one of the keys, with or without a mask.
  __device__ __forceinline__ bool allows_any(int i, Keys keys) const {
    if (!data) return keys.lo < keys.hi;
    for (int j = keys.lo; j < keys.hi; ++j) {
      if (allows(i, j)) return true;
    }
    return false;
  }

  // Prefetches the mask of a warp's scores while the matmul runs, if there is a mask with adjacent keys. `row` and
  // `column` are those of the lane's first accumulator.
  template <int kMt, int kNt>
  __device__ __forceinline__ void prefetch(int row_of_lane, int column, const Sequence& sequence) const {
    if (!data || key != 1 || lane_index() % 4 != 0 || column >= sequence.seqlen_k) return;
#pragma unroll
    for (int r = 0; r < 2 * kMt; ++r) {
      const int i = row_of_lane + r * 8;
      if (i < sequence.seqlen_q) prefetch_line(reinterpret_cast<const char*>(data + i * row + column));
    }
  }

  // Sets scores of masked pairs to -inf, and those of rows and keys past the sequence end. Requires a mask.
  template <int kMt, int kNt>
  __device__ __forceinline__ void apply(float (&s)[kMt][kNt][4], int row_of_lane, int column,
                                        const Sequence& sequence) const {
    const bool pairs =
        key == 1 && (reinterpret_cast<std::uintptr_t>(data) | row) % 2 == 0 && column + kNt * 8 <= sequence.seqlen_k;
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i = row_of_lane + m * 16 + h * 8;
        const unsigned char* const from = data + i * row + column * key;
        const bool valid = i < sequence.seqlen_q;
#pragma unroll
        for (int n = 0; n < kNt; ++n) {
          std::uint32_t two = 0;  // keys n * 8 and n * 8 + 1
          if (pairs) {
            if (valid) two = *reinterpret_cast<const std::uint16_t*>(from + n * 8);
          } else {
            if (valid && column + n * 8 < sequence.seqlen_k) two = from[n * 8 * key];
            if (valid && column + n * 8 + 1 < sequence.seqlen_k) two |= from[(n * 8 + 1) * key] << 8;
          }
          if (two % 256 == 0) s[m][n][2 * h] = -__builtin_huge_valf();
          if (two < 256) s[m][n][2 * h + 1] = -__builtin_huge_valf();
        }
      }
    }
  }
};

// Options of one (sequence, query head). The enabled options are the same for the whole block, so branches on them are
// uniform. Scores are in natural units if they are the logits themselves. Otherwise kernels keep logits divided by
// `unit`. A lane's accumulators have the rows row + 16 m + 8 h and the keys column + 8 n + e.
struct HeadScoreOptions {
  float scale, softcap, slope;  // slope: of ALiBi; 0 without
  float unit;                   // a score in natural units is score * unit; 1 if natural()
  BiasRows bias;
  MaskRows mask;
  bool bias_fp32, bias_pairs;  // pairs: one load reads two neighbouring keys
  std::uint32_t threshold;
  Philox philox;

  __device__ __forceinline__ HeadScoreOptions(const Params& p, int batch, int head)
      : scale(p.scale),
        softcap(p.softcap),
        slope(p.alibi_slopes ? p.alibi_slopes[batch * p.alibi_batch + head] : 0),
        unit(natural(p)       ? 1
             : p.softcap != 0 ? p.softcap
                              : p.scale),
        bias(p, batch, head),
        mask(p, batch, head),
        bias_fp32(p.bias_fp32),
        bias_pairs(reinterpret_cast<std::uintptr_t>(bias.data) % (p.bias_fp32 ? 8 : 4) == 0 && bias.row % 2 == 0),
        threshold(p.dropout_threshold),
        philox(p.philox_keys, batch, head) {}

  // True if scores are in natural units (unit = 1). A bias needs this because it may be -FLT_MAX, and a scale that is
  // not positive because it would reverse the order of scores. With few keys, or a boolean mask that may leave few, the
  // probability of a single key must be exactly 1 in the backward pass. Dropout uses natural units too.
  __device__ static __forceinline__ bool natural(const Params& p) {
    return p.bias.data || p.mask.data || !(p.scale > 0) || p.max_seqlen_k <= kFewKeys || p.dropout_threshold != 0;
  }

  // Turns q.k into the score before the bias, in units of `unit`; fp32 always uses natural units. With a softcap, sets
  // `slopes` to the derivative of the cap.
  template <class T, int kMt, int kNt, class Slopes>
  __device__ __forceinline__ void apply(float (&s)[kMt][kNt][4], Slopes& slopes, int row, int column,
                                        const Sequence& sequence) const {
    const float steps = kIsFp32<T> ? 1 : unit;
    if (softcap != 0) {
      const float inner = scale / softcap;
      for_each(s, [&](int m, int n, int e) {
        const float t = tanh_of<T>(s[m][n][e] * inner);
        s[m][n][e] = t;
        slopes.set(m, n, e, 1 - t * t);
      });
      if (steps == 1) for_each(s, [&](int m, int n, int e) { s[m][n][e] = multiply_rounded(softcap, s[m][n][e]); });
    } else if (steps == 1) {
      for_each(s, [&](int m, int n, int e) { s[m][n][e] = multiply_rounded(s[m][n][e], scale); });
    }
    if (slope != 0) {
      const float in_units = slope / steps;
      const auto distance = static_cast<float>(row + sequence.offset - column);
      for_each(s, [&](int m, int n, int e) {
        const float away = fabsf(distance + static_cast<float>(m * 16 + e / 2 * 8 - n * 8 - e % 2));
        s[m][n][e] = fmaf(-in_units, away, s[m][n][e]);
      });
    }
  }

  // Prefetches the bias of a warp's scores while the matmul runs. The four lanes of a quad prefetch different cache
  // lines of their rows.
  template <int kMt, int kNt>
  __device__ __forceinline__ void prefetch_bias(int row, int column, const Sequence& sequence) const {
    if (!bias.data) return;
    const int bytes = bias_fp32 ? 4 : 2;
    const int line = lane_index() % 4 * (128 / bytes);  // key offset from the first key of this tile
    const int key = column - lane_index() % 4 * 2 + line;
    if (line >= kNt * 8 || key >= sequence.seqlen_k) return;
#pragma unroll
    for (int r = 0; r < 2 * kMt; ++r) {
      if (row + r * 8 < sequence.seqlen_q) prefetch_line(bias.data + ((row + r * 8) * bias.row + key) * bytes);
    }
  }

  // Calls keep(m, n, e, kept) for each probability; kept is true if dropout keeps it. The tile's first row and key are
  // multiples of 16.
  template <int kMt, int kNt, class Keep>
  __device__ __forceinline__ void drop(const float (&)[kMt][kNt][4], int row, int column, Keep&& keep) const {
    static_assert(kNt % 2 == 0);
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int n = 0; n < kNt; n += 2) {
        std::uint32_t words[4];
        philox.words(words, row + m * 16, column + n * 8);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          keep(m, n + w / 2, w % 2 * 2, words[w] << 16 >= threshold);
          keep(m, n + w / 2, w % 2 * 2 + 1, words[w] >= threshold);
        }
      }
    }
  }

  // Adds the bias directly from global memory. Rows and keys past the sequence end are skipped.
  template <class T, int kMt, int kNt>
  __device__ __forceinline__ void add_bias(float (&s)[kMt][kNt][4], int row, int column,
                                           const Sequence& sequence) const {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = row + m * 16 + half * 8;
        if (i >= sequence.seqlen_q) continue;
        const std::int64_t first = i * bias.row + column;
        const auto* wide = reinterpret_cast<const float*>(bias.data) + first;
        const auto* narrow = reinterpret_cast<const ElementType<T>*>(bias.data) + first;
        const bool whole = bias_pairs && column + kNt * 8 <= sequence.seqlen_k;
#pragma unroll
        for (int n = 0; n < kNt; ++n) {
          float& low = s[m][n][2 * half];
          float& high = s[m][n][2 * half + 1];
          if (whole && bias_fp32) {
            const float2 two = *reinterpret_cast<const float2*>(wide + n * 8);
            low += two.x, high += two.y;
          } else if (whole && !kIsFp32<T>) {
            const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(narrow + n * 8);
            low += low_half<T>(two), high += high_half<T>(two);
          } else {
            if (column + n * 8 < sequence.seqlen_k) low += bias_fp32 ? wide[n * 8] : to_float<T>(narrow[n * 8]);
            if (column + n * 8 + 1 < sequence.seqlen_k) {
              high += bias_fp32 ? wide[n * 8 + 1] : to_float<T>(narrow[n * 8 + 1]);
            }
          }
        }
      }
    }
  }
};

// Destination of the softcap derivatives: none in the forward pass, registers in the backward pass. The derivatives are
// between 0 and 1 and multiply values that are then rounded to 16 bits. Except in fp32 kernels, a register therefore
// holds two of them as fp16.
struct NoSlopes {
  __device__ __forceinline__ void set(int, int, int, float) {}
};

template <class T, int kMt, int kNt>
struct CapSlopes {
  std::uint32_t pairs[kMt][kNt][2];
  float even;  // first value of the pair that set() is filling
  __device__ __forceinline__ void set(int m, int n, int e, float slope) {
    if (e % 2 == 0) {
      even = slope;
    } else {
      pairs[m][n][e / 2] = pack<Fp16>(even, slope);
    }
  }
  __device__ __forceinline__ float get(int m, int n, int e) const {
    return unpack<Fp16>(static_cast<std::uint16_t>(pairs[m][n][e / 2] >> (e % 2 * 16)));
  }
};

template <int kMt, int kNt>
struct CapSlopes<Fp32, kMt, kNt> {
  float value[kMt][kNt][4];
  __device__ __forceinline__ void set(int m, int n, int e, float slope) { value[m][n][e] = slope; }
  __device__ __forceinline__ float get(int m, int n, int e) const { return value[m][n][e]; }
};

}  // namespace strobe::cuda
