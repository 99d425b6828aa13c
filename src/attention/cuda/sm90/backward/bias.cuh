// Additive bias in the Hopper backward. The producer loads the bias of a score tile, [rows][keys], by TMA. Consumers
// add it to transposed scores. dbias is dS: consumers store it, or add it if sequences or heads share an element.
// Called by kernel.cuh, load.cuh and rows.cuh.
#pragma once

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm90/backward/args.h"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/device/bias.cuh"

namespace strobe::cuda::sm90 {

template <class Args>
inline constexpr int kRowFacts = row_facts_of(HasBias<Args>);

// From this |LSE| on the rounding of LSE shows in 16-bit gradients. If all keys of a row have a bias of -FLT_MAX, for
// example, LSE does not contain the number of keys.
inline constexpr float kRoundedLse = 8192;

__device__ __forceinline__ bool is_rounded_lse(float lse) {
  return fabsf(lse) >= kRoundedLse && fabsf(lse) < -kMinusInfinity;
}

// True if a row of the tile has a rounded LSE. lse: shared-memory address of the first row's LSE.
template <int kRows>
__device__ __forceinline__ bool has_rounded_lse(std::uint32_t lse) {
  bool rounded = false;
#pragma unroll
  for (int row = 0; row < kRows; row += 32) {
    rounded |= is_rounded_lse(bits_to_float(load_shared(lse + static_cast<std::uint32_t>((row + lane_index()) * 4))));
  }
  return __any_sync(0xffffffffu, rounded);
}

// One warp computes log2 of the sum of exp(score - LSE) for the rows [first, first + 16) with a rounded LSE,
// and 0 for the others. lse, log2_sum: of the rows lane / 4 and lane / 4 + 8.
template <class T, int kD, class Args>
__device__ __forceinline__ void log2_sums_of_16(const Args& args, const Sequence& sequence, const RowTile& place,
                                                int first, const float (&lse)[2], float (&log2_sum)[2]) {
  const SequenceParams& p = args.params;
  bool shows[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    log2_sum[h] = 0;
    shows[h] = is_rounded_lse(lse[h]);
  }
  if (!__any_sync(0xffffffffu, shows[0] || shows[1])) return;
  const int row = first + lane_index() / 4, quarter = lane_index() % 4;
  // A lane loads 8 adjacent columns of its rows of Q, and of its key. They are the operands of two MMAs, whose columns
  // are permuted alike.
  const auto load = [&](const Tensor& tensor, int head, std::int64_t at, int column, bool valid) {
    const auto* const from =
        static_cast<const std::uint16_t*>(tensor.data) + head_offset(tensor, place.b, head, at) + column;
    return valid && column < p.d ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
  };
  uint4 q[kD / 32][2];
#pragma unroll
  for (int c = 0; c < kD / 32; ++c) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row + 8 * h;
      q[c][h] = load(args.q, place.head, sequence.q_begin + i, c * 32 + quarter * 8, i < sequence.seqlen_q);
    }
  }
  const auto* const bias = static_cast<const std::uint16_t*>(args.bias.data) +
                           head_offset(args.bias, place.b, place.head, row) + quarter * 2;
  Keys allowed[2] = {sequence.allowed(row), sequence.allowed(row + 8)};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (!shows[h] || row + 8 * h >= sequence.seqlen_q) allowed[h] = {0, 0};
  }
  const Keys keys = sequence.some(first, min(first + 16, sequence.seqlen_q) - 1);
  float sum[2] = {0, 0};
#pragma unroll 1
  for (int key = keys.lo / 8 * 8; key < keys.hi; key += 8) {
    const int own = key + lane_index() / 4;
    float s[4] = {};
#pragma unroll
    for (int c = 0; c < kD / 32; ++c) {
      const uint4 k =
          load(args.k, place.head / p.group, sequence.k_begin + own, c * 32 + quarter * 8, own < sequence.seqlen_k);
      const std::uint32_t left[4] = {q[c][0].x, q[c][1].x, q[c][0].y, q[c][1].y},
                          right[4] = {q[c][0].z, q[c][1].z, q[c][0].w, q[c][1].w};
      mma<T>(s, left, k.x, k.y);
      mma<T>(s, right, k.z, k.w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i / 2, j = key + quarter * 2 + i % 2;
      if (j < allowed[h].lo || j >= allowed[h].hi) continue;
      const float score = fmaf(s[i], p.scale, unpack<T>(bias[8 * h * args.bias.row + key + i % 2]));
      sum[h] += exp2_fast((score - lse[h]) * kLog2E);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] = quad_sum(sum[h]);
    if (args.sinks) sum[h] += exp2_fast((args.sinks[place.head] - lse[h]) * kLog2E);
    if (shows[h]) log2_sum[h] = log2f(sum[h]);
  }
}

// Replaces scores q.k by probabilities. lse: shared-memory address of the first row's LSE; bias: that of this
// warpgroup's bias, [kRows][64 keys]; warp: index in the warpgroup.
template <class T, int kRows>
__device__ __forceinline__ void weigh_biased(float (&s)[kRows / 2], std::uint32_t lse, float scale, std::uint32_t bias,
                                             int warp) {
  const int lane = lane_index();
  const std::uint32_t mine = lse + static_cast<std::uint32_t>(lane % 4 * 8);
  // The row and the 16-byte chunk of keys of the 8x8 matrix whose address this lane passes.
  const int row = lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
  const std::uint32_t at = bias + static_cast<std::uint32_t>(row * 128 + (chunk ^ lane % 8) * 16);
#pragma unroll
  for (int n = 0; n < kRows / 8; n += 2) {
    std::uint32_t pairs[4];  // of 8 rows: the first 8 keys, the other 8 keys; then the same of the next 8 rows
    load_matrices_transposed(pairs, at + n * 1024);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const float2 rows = load_shared_pair(mine + (n + m) * 32);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i = 4 * (n + m) + 2 * h;
        const std::uint32_t pair = pairs[2 * m + h];
        s[i] = exp2_fast((fmaf(s[i], scale, low_half<T>(pair)) - rows.x) * kLog2E);
        s[i + 1] = exp2_fast((fmaf(s[i + 1], scale, high_half<T>(pair)) - rows.y) * kLog2E);
      }
    }
  }
}

// Divides probabilities by their row's sum. log2_sums: of the first row of the tile.
template <int kRows>
__device__ __forceinline__ void correct_sums(float (&s)[kRows / 2], const float* log2_sums) {
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float factor = exp2_fast(-log2_sums[8 * n + lane_index() % 4 * 2 + e]);
      s[4 * n + e] *= factor;
      s[4 * n + 2 + e] *= factor;
    }
  }
}

__device__ __forceinline__ void store_streaming(float* to, float value) {
  asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

// Stores or adds dS, [64 keys][kRows] in a warpgroup's accumulators, to dbias. key: this thread's first key; the second
// is key + 8. first_row: row of the first column. The eight lanes that share a row write 32 contiguous bytes.
template <int kRows, class Args>
__device__ __forceinline__ void store_dbias(const Args& args, const Sequence& sequence, int b, int head, int first_row,
                                            int key, const float (&ds)[kRows / 2]) {
  const Tensor& to = args.dbias;
  const int row = first_row + lane_index() % 4 * 2;
  const int rows = sequence.seqlen_q - row, keys = sequence.seqlen_k - key;
  const auto write = [&]<bool kWhole>(auto&& put) {
    float* at[2];
    at[0] = static_cast<float*>(to.data) + head_offset(to, b, head, row) + key;
    at[1] = at[0] + to.row;
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (kWhole || (8 * n + e < rows && 0 < keys)) put(at[e], ds[4 * n + e]);
        if (kWhole || (8 * n + e < rows && 8 < keys)) put(at[e] + 8, ds[4 * n + 2 + e]);
        at[e] += 8 * to.row;
        asm volatile("" : "+l"(at[e]));  // otherwise the compiler computes all addresses in advance, and spills
      }
    }
  };
  const auto write_any = [&](auto&& put) {
    // The same for the whole warp, whose keys begin at a multiple of 16.
    if (first_row + kRows <= sequence.seqlen_q && key / 16 * 16 + 16 <= sequence.seqlen_k) {
      write.template operator()<true>(put);
    } else {
      write.template operator()<false>(put);
    }
  };
  if (args.adds_dbias) {
    write_any([](float* place, float value) { reduce_add(place, value); });
  } else {
    write_any([](float* place, float value) { store_streaming(place, value); });
  }
}

}  // namespace strobe::cuda::sm90
